package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"
)

const (
	look      = 100 * time.Millisecond  // as often as kubelet's reconciler
	quiet     = 1500 * time.Millisecond // without a change, once nothing is left of any Pod: devices go a loop later
	unchanged = 6 * time.Second         // without a change, while something is left: longer than the first back-offs
)

// cmdMount mounts what the Pods of a directory of manifests want, on whatever root there is, says so, and waits to be
// killed. csiSocket is where the driver csiName serves, if it does.
func cmdMount(root, manifests, csiSocket string) {
	pods, objects := readObjects(manifests)
	e := newEnv(root, objects...)
	e.registerDriver(csiSocket)
	for _, p := range pods {
		e.makePodDirectories(p)
		e.addPod(p)
	}
	e.ready.Store(true)
	e.run()
	go e.attachWhatIsInUse()
	for _, p := range pods {
		must(e.mountPod(p))
		must(e.bindSubpaths(p))
	}
	fmt.Println("MOUNTED")
	select {}
}

// registerDriver does what kubelet does when a driver's registrar has told its socket.
func (e *env) registerDriver(socket string) {
	if socket != "" {
		must(csi.PluginHandler.RegisterPlugin(e.ctx, csiName, socket, []string{"1.0.0"}, nil))
	}
}

// attachWhatIsInUse does for volumes that need attaching what kubelet, by its node status, and the attach-detach controller
// do together: what is in use is told, and is attached then.
func (e *env) attachWhatIsInUse() {
	nodes := e.client.CoreV1().Nodes()
	for ; ; time.Sleep(look) {
		inUse := e.vm.GetVolumesInUse()
		node, err := nodes.Get(e.ctx, nodeName, metav1.GetOptions{})
		must(err)
		node.Status.VolumesInUse = inUse
		node.Status.VolumesAttached = nil
		for _, name := range inUse {
			node.Status.VolumesAttached = append(node.Status.VolumesAttached, v1.AttachedVolume{Name: name})
		}
		_, err = nodes.UpdateStatus(e.ctx, node, metav1.UpdateOptions{})
		must(err)
		e.vm.MarkVolumesAsReportedInUse(inUse)
	}
}

// makePodDirectories does what kubelet does before it waits for a Pod's volumes (makePodDataDirs).
func (e *env) makePodDirectories(p *v1.Pod) {
	top := filepath.Join(e.host.GetPodsDir(), string(p.UID))
	for _, directory := range []string{top, filepath.Join(top, "volumes"), filepath.Join(top, "plugins")} {
		must(os.MkdirAll(directory, 0750))
	}
}

// bindSubpaths does what kubelet does for subPaths when it makes a container's mounts.
func (e *env) bindSubpaths(p *v1.Pod) error {
	volumes := e.vm.GetMountedVolumesForPod(volumetypes.UniquePodName(p.UID))
	for _, c := range p.Spec.Containers {
		for i, m := range c.VolumeMounts {
			if m.SubPath == "" {
				continue
			}
			volume := volumes[m.Name]
			path, err := util.GetPath(volume.Mounter)
			if err != nil {
				return err
			}
			mode, err := e.host.hu.GetMode(path)
			if err != nil {
				return err
			}
			if err := e.host.sp.SafeMakeDir(m.SubPath, path, mode); err != nil && !os.IsExist(err) {
				return err
			}
			_, done, err := e.host.sp.PrepareSafeSubpath(subpath.Subpath{
				VolumeMountIndex: i,
				Path:             filepath.Join(path, m.SubPath),
				VolumeName:       volume.InnerVolumeSpecName,
				VolumePath:       path,
				PodDir:           filepath.Join(e.root, "pods", string(p.UID)),
				ContainerName:    c.Name,
			})
			if done != nil {
				done() // the container has started
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// cmdClear starts over a root with no Pod wanted, and ends when nothing is left of any, or nothing changes any more.
// On a machine that is `slow` times slower than most it waits so much longer.
func cmdClear(root, csiSocket string, slow int) {
	e := newEnv(root)
	e.registerDriver(csiSocket)
	e.ready.Store(true)
	e.run()
	go e.attachWhatIsInUse()
	for !e.vm.ReconcilerStatesHasBeenSynced() {
		time.Sleep(look)
	}
	before, since := "", time.Now()
	for {
		problems := e.clearOrphans()
		left := strings.Join(append(mountsBelow(root), tree(root)...), "\n")
		if left != before {
			before, since = left, time.Now()
		}
		pods, err := os.ReadDir(filepath.Join(root, "pods"))
		must(err)
		limit := unchanged
		if len(pods) == 0 && len(mountsBelow(root)) == 0 && !hasFiles(root) {
			limit = quiet
		}
		if time.Since(since) > limit*time.Duration(slow) {
			for _, problem := range problems {
				fmt.Println("PROBLEM", problem)
			}
			fmt.Println("CLEARED")
			return
		}
		time.Sleep(look)
	}
}

func mountsBelow(root string) (found []string) {
	for _, line := range strings.Split(string(mountinfo()), "\n") {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], root+"/") {
			found = append(found, fields[4])
		}
	}
	return found
}

// hasFiles tells whether some type still has a file of its own about a volume: it is not done with its device then.
func hasFiles(root string) bool {
	for _, path := range tree(root) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// tree names all that lies below the Pods' and the types' directories, without looking into what is mounted there.
func tree(root string) (found []string) {
	mounted := map[string]bool{}
	for _, path := range mountsBelow(root) {
		mounted[path] = true
	}
	for _, top := range []string{"pods", "plugins"} {
		filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil { // removed meanwhile
				return nil
			}
			found = append(found, path)
			if mounted[path] {
				return fs.SkipDir
			}
			return nil
		})
	}
	return found
}
