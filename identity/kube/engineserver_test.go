package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

// boxes is the kind of these tests.
var boxes = Resource{
	Group: "sandbox.example.com", Kind: "Box", Plural: "boxes", Versions: []string{"v2", "v1"},
	Unread: [][]string{{"spec", "template"}},
}

// decodeBox keeps of an object what tests ask for.
func decodeBox(o map[string]any) sandbox.Sandbox {
	m := o["metadata"].(map[string]any)
	text := func(key string) string { s, _ := m[key].(string); return s }
	s := sandbox.Sandbox{Kind: boxes.Owner(), UID: identity.UID(text("uid")), Version: text("resourceVersion")}
	s.Namespace, s.Name = text("namespace"), text("name")
	s.Names = []string{o["apiVersion"].(string)}
	spec, _ := o["spec"].(map[string]any)
	if m["managedFields"] != nil || spec["template"] != nil {
		s.Malformed = " whole"
	}
	return s
}

type doc = map[string]any

// box is an object of one version.
func box(apiVersion, name, uid, version string) doc {
	return doc{
		"apiVersion": "sandbox.example.com/" + apiVersion, "kind": "Box",
		"metadata": doc{"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version, "managedFields": []doc{{"manager": "m"}}},
		"spec":     doc{"template": doc{"spec": doc{}}, "replicas": 1},
	}
}

func boxEnd(apiVersion, version string) doc {
	return doc{
		"apiVersion": "sandbox.example.com/" + apiVersion, "kind": "Box",
		"metadata": doc{"resourceVersion": version, "annotations": doc{metav1.InitialEventsAnnotationKey: "true"}},
	}
}

// engineServer is an API server without Pods and with boxes, whose CRD a test installs
// and removes. It has no streaming lists.
type engineServer struct {
	mu       sync.Mutex
	served   []string // versions of the CRD; none is no CRD
	version  string   // of lists
	boxes    []string // the names that lists have
	status   int      // answers whatever is asked of boxes, if not 0
	broken   bool     // a proxy answers 404, whatever is asked
	closed   bool     // the directory is forbidden
	changed  chan struct{}
	requests []string
}

func newEngineServer(served ...string) *engineServer {
	return &engineServer{served: served, version: "10", changed: make(chan struct{})}
}

// change changes the server under its lock, and ends every watch.
func (e *engineServer) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.changed)
	e.changed = make(chan struct{})
}

// asked are the requests so far that have this in them.
func (e *engineServer) asked(part string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.requests), func(r string) bool { return !strings.Contains(r, part) })
}

func (e *engineServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	body, _ := io.ReadAll(r.Body)
	e.requests = append(e.requests, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
	changed := e.changed
	wait := e.answer(w, r)
	e.mu.Unlock()
	if wait { // a watch
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
}

// answer must be called with mu held.
func (e *engineServer) answer(w http.ResponseWriter, r *http.Request) (wait bool) {
	say := func(o any) {
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(o)
	}
	watch, streams := r.URL.Query().Get("watch") != "", r.URL.Query().Get("sendInitialEvents") != ""
	at := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case e.broken:
		http.Error(w, "<html>404</html>", http.StatusNotFound)
	case at[0] == "api" && streams:
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "")
	case at[0] == "api" && watch:
		return true
	case at[0] == "api" && len(at) > 4: // one Pod
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, at[5])
	case at[0] == "api":
		say(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "10"}})
	case len(at) <= 3 && e.closed:
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "")
	case len(at) == 1: // /apis
		say(e.groups())
	case len(at) == 3: // /apis/<group>/<version>
		resources := []metav1.APIResource{{Name: "lids"}}
		if slices.Contains(e.served, at[2]) {
			resources = append(resources, metav1.APIResource{Name: "boxes"})
		}
		say(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, APIResources: resources})
	case e.status != 0:
		refuse(w, e.status, map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 409: metav1.StatusReasonConflict, 500: "Internal"}[e.status], "")
	case !slices.Contains(e.served, at[2]):
		http.Error(w, "404 page not found", http.StatusNotFound)
	case streams:
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "")
	case watch:
		return true
	case len(at) == 7 && !slices.Contains(e.boxes, at[6]): // /apis/<group>/<version>/namespaces/<namespace>/boxes/<name>
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, at[6])
	case len(at) == 7 && r.Method == http.MethodPatch:
		say(box(at[2], at[6], strings.ToUpper(at[6]), "8"))
	case len(at) == 7:
		say(box(at[2], at[6], strings.ToUpper(at[6]), "1"))
	default:
		items := []doc{}
		for i, name := range e.boxes {
			items = append(items, box(at[2], name, strings.ToUpper(name), fmt.Sprint(i+1)))
		}
		say(doc{"apiVersion": "sandbox.example.com/" + at[2], "kind": "BoxList", "metadata": doc{"resourceVersion": e.version}, "items": items})
	}
	return false
}

// groups has the group of the boxes, which other kinds are in too.
func (e *engineServer) groups() metav1.APIGroupList {
	group := metav1.APIGroup{Name: boxes.Group}
	for _, v := range append([]string{"v0"}, e.served...) {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: boxes.Group + "/" + v, Version: v})
	}
	return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{{Name: "apps"}, group}}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, name string) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason, Message: string(reason), Details: &metav1.StatusDetails{Name: name}})
}

// startBoxes watches boxes too, into an index of sandboxes.
func startBoxes(t *testing.T, handler http.Handler, change func(*Source)) *sandbox.Index {
	t.Helper()
	var index *sandbox.Index
	startHandler(t, handler, func(s *Source) {
		index = sandbox.NewIndex(sandbox.Engine{}, identity.NewIndex(identity.HistoryConfig{}))
		if err := Watch(s, boxes, decodeBox, index.NewFeed); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(s)
		}
	})
	return index
}

// names are the boxes that an index has, each with its uid, sorted.
func names(index *sandbox.Index) string {
	var all []string
	for _, s := range index.All() {
		all = append(all, s.Name+"="+string(s.UID)+"@"+strings.TrimPrefix(s.Names[0], "sandbox.example.com/")+s.Malformed)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
