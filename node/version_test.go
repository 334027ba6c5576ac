package node

import (
	"fmt"
	"testing"
)

// TestRunscVersion: what a release does with links is the table of what was tried;
// what is not a release is not known.
func TestRunscVersion(t *testing.T) {
	for text, want := range map[string]string{
		"runsc version release-20260504.0":                "20260504 ok/ok/ok",
		"runsc version release-20260511.0":                "20260511 ok/ok/ok",
		"runsc version release-20260511.0-34-g209a0ce076": "20260511 ok/ok/ok",
		"runsc version release-20260520.0":                "20260520 failure/failure/failure",
		"runsc version release-20260525.0":                "20260525 ok/failure/failure",
		"runsc version release-20260615.0":                "20260615 ok/failure/failure",
		"runsc version release-20260622.0":                "20260622 ok/failure/ok",
		"runsc version release-20260817.0\nspec: 1.2.1":   "20260817 ok/failure/ok",
		"runsc version release-20261101.0":                "20261101 unknown/unknown/unknown",
		"runsc version 0.0~20221219.0":                    "20221219 ok/ok/ok",
		"runsc version VERSION_MISSING":                   "unknown unknown/unknown/unknown",
		"runsc version release-20261320.0":                "unknown unknown/unknown/unknown",
		"runsc version release-20260500.0":                "unknown unknown/unknown/unknown",
		"runsc version release-20260520":                  "unknown unknown/unknown/unknown",
		"runsc version release-00000000.0":                "unknown unknown/unknown/unknown",
		"runc version 1.1.5":                              "unknown unknown/unknown/unknown",
		"":                                                "unknown unknown/unknown/unknown",
	} {
		v := ParseRunscVersion(text)
		bare, pod := v.BehindLink()
		if got := fmt.Sprintf("%v %v/%v/%v", v, bare, pod, v.OnEROFS()); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestContainerdVersion(t *testing.T) {
	for text, want := range map[string]string{
		"containerd github.com/containerd/containerd/v2 v2.2.2 9fd0e2f":                                       "2.2.2",
		"containerd github.com/containerd/containerd v1.7.34 abc":                                             "1.7.34",
		"containerd containerd.io 1.2.13 7ad184331fa3e55e52b890ea95e65ba581ae3429":                            "1.2.13",
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1":                         "1.6.20",
		"containerd github.com/k3s-io/containerd v2.0.5-k3s2 abc":                                             "2.0.5",
		"containerd github.com/containerd/containerd v1.4.0-42-gefa0e809 efa0e809135e440995c6e92ca21b3545659": "1.4.0",
		"containerd":              "unknown",
		"":                        "unknown",
		"containerd v2":           "unknown",
		"containerd 1234567.1.2 ": "unknown",
	} {
		if got := ParseContainerdVersion(text); got.String() != want || got.Known() != (want != "unknown") {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
	v := ContainerdVersion{1, 6, 20}
	if !v.Before(1, 7) || !v.Before(2, 0) || v.Before(1, 6) || (ContainerdVersion{}).Before(9, 9) {
		t.Error("versions are out of order")
	}
}
