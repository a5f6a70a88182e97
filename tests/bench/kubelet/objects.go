package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// readObjects reads every file of a directory of manifests, with the defaults that an API server would have set.
// The Node and the CSIDriver are left out: newEnv has one of each.
func readObjects(directory string) (pods []*v1.Pod, others []runtime.Object) {
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	must(err)
	sort.Strings(files)
	for _, file := range files {
		for _, document := range documents(file) {
			object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
			must(err)
			legacyscheme.Scheme.Default(object)
			switch found := object.(type) {
			case *v1.Pod:
				pods = append(pods, found)
			case *v1.Node, *storagev1.CSIDriver:
			default:
				others = append(others, object)
			}
		}
	}
	return pods, others
}

func documents(file string) (found [][]byte) {
	data, err := os.ReadFile(file)
	must(err)
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		must(err)
		if len(bytes.TrimSpace(document)) > 0 {
			found = append(found, document)
		}
	}
}
