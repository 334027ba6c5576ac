package lab

import "fmt"

// CheckInvariant says which request of a protected route was answered 200 (or 101,
// an upgrade) by an upstream that is not the address that samepod returned for it.
// Every test of the product arm ends with it.
func CheckInvariant(log []AccessLog) error {
	for i, e := range log {
		if e.Code >= 300 || e.Code < 100 {
			continue
		}
		if e.Remote == "" && e.Flags == "UAEX" {
			continue // a denial of a gRPC call is 200 with a grpc-status; nobody was dialled
		}
		if e.Verified == "" || e.Remote != string(e.Verified) {
			return fmt.Errorf("request %d was answered %d by %q, but %q is verified: %+v", i, e.Code, e.Remote, e.Verified, e)
		}
		if e.Attempts > 1 {
			return fmt.Errorf("request %d was sent %d times: %+v", i, e.Attempts, e)
		}
	}
	return nil
}
