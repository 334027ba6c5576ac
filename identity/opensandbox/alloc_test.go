package opensandbox_test

import (
	"testing"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
)

// TestHotPathDoesNotAllocate: a request of every form, to its Target.
func TestHotPathDoesNotAllocate(t *testing.T) {
	p := newPlay(t)
	p.has(object("a"), ownPod("a"), object("b", of("noop", "p-1")), poolPod("p-1", ofPool("noop"), on(y)))
	p.answers("a", pass)
	for _, tc := range []struct {
		mode opensandbox.Mode
		req  request
	}{
		{opensandbox.HeaderMode, to("a-44772")},
		{opensandbox.HeaderMode, to("b-44772", accessHeader, "t")},
		{opensandbox.HeaderMode, to("a-44772-1vuhmo0-e8438980a")},
		{opensandbox.HeaderMode, request{host: "a-44772.gw:8443"}},
		{opensandbox.URIMode, request{path: "/a/44772/files/download?path=x"}},
		{opensandbox.URIMode, request{path: "/a/44772/1vuhmo0/e8438980a/x"}},
	} {
		var req identity.Request = tc.req
		routes := opensandbox.Routes{Mode: tc.mode}
		var bad error
		got := testing.AllocsPerRun(100, func() {
			c, err := routes.Claim(req)
			if t := p.index.Target(c); err != nil || t.State != identity.Bound {
				bad = err
			}
		})
		if got != 0 || bad != nil {
			t.Errorf("%v: %v allocations, %v", tc.req, got, bad)
		}
	}
}
