package renewal

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestEncode: the message of OpenSandbox's ingress, key by key, as its server's
// parse_renew_intent_json reads it.
func TestEncode(t *testing.T) {
	want, err := os.ReadFile("testdata/intent.json")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := time.FixedZone("", 3600)
	at := time.Date(2026, 11, 30, 21, 52, 4, 123456789, elsewhere)
	intent := Intent{Sandbox: Sandbox{Namespace: "sandboxes", ID: "6f9619ff-8b86"}, Port: 44772, ObservedAt: at}
	if got := string(intent.encode()); got != strings.TrimSpace(string(want)) {
		t.Errorf("%s, want %s", got, want)
	}
	// What the ingress leaves out when it does not know it.
	bare := Intent{Sandbox: Sandbox{ID: "a"}, ObservedAt: at.Truncate(time.Second)}
	if got, want := string(bare.encode()), `{"sandbox_id":"a","observed_at":"2026-11-30T20:52:04Z"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
