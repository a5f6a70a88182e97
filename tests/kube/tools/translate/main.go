// translate says what csi-translation-lib, which kubelet uses, makes of volumes: JSON lines in, JSON lines out.
// Each answer repeats what was read, so that whoever compares starts from the same; a panic is an answer, too.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// question has one of: Volume, PV (to csi, or back), Class, Handle.
type question struct {
	Volume    *v1.Volume            `json:"volume,omitempty"`
	Namespace string                `json:"namespace,omitempty"`
	PV        *v1.PersistentVolume  `json:"pv,omitempty"`
	Back      bool                  `json:"back,omitempty"`
	Class     *storage.StorageClass `json:"class,omitempty"`
	Driver    string                `json:"driver,omitempty"`
	Handle    string                `json:"handle,omitempty"`
	Node      string                `json:"node,omitempty"`
}

type answer struct {
	Read   question `json:"read"`
	Result any      `json:"result,omitempty"`
	Error  string   `json:"error,omitempty"`
	Panic  string   `json:"panic,omitempty"`
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	answers := json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for number := 1; ; number++ {
		var asked question
		if err := in.Decode(&asked); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatalf("question %d: %v", number, err)
		}
		if err := answers.Encode(answered(asked)); err != nil {
			log.Fatalf("question %d: %v", number, err)
		}
	}
}

func answered(asked question) (given answer) {
	given.Read = asked
	defer func() {
		if found := recover(); found != nil {
			given.Panic = fmt.Sprint(found)
		}
	}()
	result, err := translated(translation.New(), klog.Background(), asked)
	if err != nil {
		given.Error = err.Error()
	} else {
		given.Result = result
	}
	return given
}

func translated(of translation.CSITranslator, logger klog.Logger, asked question) (any, error) {
	switch {
	case asked.Volume != nil:
		return of.TranslateInTreeInlineVolumeToCSI(logger, asked.Volume, asked.Namespace)
	case asked.PV != nil && asked.Back:
		return of.TranslateCSIPVToInTree(asked.PV)
	case asked.PV != nil:
		return of.TranslateInTreePVToCSI(logger, asked.PV)
	case asked.Class != nil:
		return of.TranslateInTreeStorageClassToCSI(logger, asked.Class.Provisioner, asked.Class)
	default:
		return of.RepairVolumeHandle(asked.Driver, asked.Handle, asked.Node)
	}
}
