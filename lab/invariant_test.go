package lab_test

import (
	"testing"

	"github.com/samepod/samepod/lab"
)

// TestInvariant: the check that ends every test can fail.
func TestInvariant(t *testing.T) {
	for what, tc := range map[string]struct {
		entry lab.AccessLog
		holds bool
	}{
		"a Pod that was verified":               {lab.AccessLog{Code: 200, Verified: "10.0.0.1:1", Remote: "10.0.0.1:1", Attempts: 1}, true},
		"another Pod":                           {lab.AccessLog{Code: 200, Verified: "10.0.0.1:1", Remote: "10.0.0.2:1", Attempts: 1}, false},
		"another Pod that answered an error":    {lab.AccessLog{Code: 500, Verified: "10.0.0.1:1", Remote: "10.0.0.2:1", Attempts: 1}, false},
		"a Pod, and nothing was verified":       {lab.AccessLog{Code: 200, Remote: "10.0.0.2:1", Attempts: 1}, false},
		"twice":                                 {lab.AccessLog{Code: 200, Verified: "10.0.0.1:1", Remote: "10.0.0.1:1", Attempts: 2}, false},
		"an answer by nobody":                   {lab.AccessLog{Code: 200}, false},
		"a denial":                              {lab.AccessLog{Code: 409, Flags: "UAEX"}, true},
		"a denial of a gRPC call":               {lab.AccessLog{Code: 200, Flags: "UAEX"}, true},
		"a caller that went before it was read": {lab.AccessLog{Code: 0, Flags: "DR"}, true},
	} {
		if err := lab.CheckInvariant([]lab.AccessLog{tc.entry}); (err == nil) != tc.holds {
			t.Errorf("%s: %v", what, err)
		}
	}
}
