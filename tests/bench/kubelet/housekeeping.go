package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/kubernetes/pkg/util/removeall"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"
)

// clearOrphans removes the directories of Pods that are not wanted, by the rules of kubelet's cleanupOrphanedPodDirs
// (pkg/kubelet/kubelet_volumes.go), which needs a whole kubelet; the removals themselves are kubelet's code.
func (e *env) clearOrphans() (problems []error) {
	pods, err := os.ReadDir(e.host.GetPodsDir())
	must(err)
	for _, pod := range pods {
		if e.vm.HasPossiblyMountedVolumesForPod(volumetypes.UniquePodName(pod.Name())) {
			problems = append(problems, fmt.Errorf("%s: its volumes are not all unmounted", pod.Name()))
			continue
		}
		if failed := e.clearOrphan(filepath.Join(e.host.GetPodsDir(), pod.Name())); len(failed) > 0 {
			problems = append(problems, failed...)
		}
	}
	return problems
}

func (e *env) clearOrphan(pod string) (problems []error) {
	volumes := filepath.Join(pod, "volumes")
	paths, _ := filepath.Glob(filepath.Join(volumes, "*", "*"))
	for _, path := range paths {
		unmounted, err := e.host.mounter.IsLikelyNotMountPoint(path)
		if err != nil {
			return []error{fmt.Errorf("%s: %w", path, err)}
		}
		if !unmounted {
			return []error{fmt.Errorf("%s: still mounted", path)}
		}
	}
	for _, path := range paths {
		if err := syscall.Rmdir(path); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
		}
	}
	subpaths, _ := filepath.Glob(filepath.Join(pod, "volume-subpaths", "*", "*", "*"))
	for _, path := range subpaths {
		if err := os.Remove(path); err != nil {
			problems = append(problems, err)
		}
	}
	if err := removeall.RemoveDirsOneFilesystem(e.host.mounter, volumes); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return problems
	}
	rest, err := os.ReadDir(pod)
	if err != nil {
		return []error{err}
	}
	for _, entry := range rest {
		if err := removeall.RemoveAllOneFilesystem(e.host.mounter, filepath.Join(pod, entry.Name())); err != nil {
			problems = append(problems, err)
		}
	}
	if err := syscall.Rmdir(pod); err != nil {
		problems = append(problems, fmt.Errorf("%s: %w", pod, err))
	}
	return problems
}
