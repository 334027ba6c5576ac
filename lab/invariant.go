package lab

import "fmt"

// CheckInvariant says which request of a protected route reached an upstream that
// is not the address that samepod returned for it, whatever the answer was, or
// reached one twice. Every test of the product arm ends with it.
func CheckInvariant(log []AccessLog) error {
	for i, e := range log {
		switch {
		case e.Remote != "" && e.Remote != string(e.Verified):
			return fmt.Errorf("request %d reached %q, but %q is verified: %+v", i, e.Remote, e.Verified, e)
		case e.Remote == "" && e.Code < 300 && e.Flags == "" && e.Details != "cors_response": // what Envoy tells a gRPC caller itself is 200 too, with a flag; a preflight asks nobody
			return fmt.Errorf("request %d was answered %d by nobody: %+v", i, e.Code, e)
		case e.Attempts > 1:
			return fmt.Errorf("request %d was sent %d times: %+v", i, e.Attempts, e)
		}
	}
	return nil
}
