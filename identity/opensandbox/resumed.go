package opensandbox

import (
	"strconv"
	"strings"

	"github.com/samepod/samepod/identity/sandbox"
)

// resumed is the generation of the sandbox out of which it was last resumed; 0 if it
// never was.
//
// A resume is the one time at which a sandbox gets another Pod and is still the same
// sandbox, and the images of its template are the one trace of it that stays: the
// controller writes those of the snapshot there, each named
// <registry>/<sandbox>-<container>:snap-gen<generation at the pause> (sandboxsnapshot_
// lifecycle.go, docs/pause-resume.md), before it makes the Pod. The generation grows with
// every pause.
//
// status.pauseObservedGeneration, in spite of its name, is of no use: the controller
// raises it to metadata.generation after any change of the spec (batchsandbox_controller.
// go), so that every renewal of expireTime moves it. A Pod that was evicted and built
// again would pass for a resumed one with the next renewal.
func resumed(o sandbox.Object, name string) int64 {
	var last int64
	for c := range o.Items("spec", "template", "spec", "containers") {
		containerName, image := sandbox.Field[string](c, "name"), sandbox.Field[string](c, "image")
		repository, generation, found := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":snap-gen")
		if !found || repository != name+"-"+containerName {
			continue
		}
		if n, err := strconv.ParseInt(generation, 10, 64); err == nil {
			last = max(last, n)
		}
	}
	return last
}
