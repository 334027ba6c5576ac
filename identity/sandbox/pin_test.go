package sandbox_test

import (
	"strings"
	"testing"

	"github.com/samepod/samepod/identity/sandbox"
)

func TestParsePin(t *testing.T) {
	p := sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0", Generation: 7, Container: "containerd://12ab"}
	plain, key, other := p.Text(nil), []byte("key"), []byte("another key")
	signed := p.Text(key)
	bare := sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0"}
	for _, tc := range []struct {
		rule, text string
		key        []byte
		want       sandbox.Pin
		err        string // "" for none
	}{
		{"as it is written", plain, nil, p, ""},
		{"with a MAC", signed, key, p, ""},
		{"without a container", bare.Text(nil), nil, bare, ""},
		{"a negative generation", sandbox.Pin{Sandbox: "s", Pod: "p", Generation: -1}.Text(nil), nil, sandbox.Pin{Sandbox: "s", Pod: "p", Generation: -1}, ""},

		{"empty", "", nil, sandbox.Pin{}, "must be v1"},
		{"another version", strings.Replace(plain, "v1", "v2", 1), nil, sandbox.Pin{}, "must be v1"},
		{"a field is missing", "v1 sandbox=s pod=p generation=0", nil, sandbox.Pin{}, "must be v1"},
		{"a field too many", plain + " more=1", nil, sandbox.Pin{}, "must be v1"},
		{"another order", "v1 pod=p sandbox=s generation=0 container=-", nil, sandbox.Pin{}, "must be v1"},
		{"an empty uid", "v1 sandbox= pod=p generation=0 container=-", nil, sandbox.Pin{}, "must be v1"},
		{"a uid that is none", "v1 sandbox=s pod=p/q generation=0 container=-", nil, sandbox.Pin{}, "must be v1"},
		{"a generation with a sign", "v1 sandbox=s pod=p generation=+1 container=-", nil, sandbox.Pin{}, "must be v1"},
		{"a generation with a leading zero", "v1 sandbox=s pod=p generation=01 container=-", nil, sandbox.Pin{}, "must be v1"},
		{"two blanks", strings.Replace(plain, " ", "  ", 1), nil, sandbox.Pin{}, "must be v1"},
		{"a line end", plain + "\n", nil, sandbox.Pin{}, "must be v1"},

		{"no MAC, and there is a key", plain, key, sandbox.Pin{}, "has no mac"},
		{"a MAC, and there is no key", signed, nil, sandbox.Pin{}, "there is no key"},
		{"another key", signed, other, sandbox.Pin{}, "its mac is wrong"},
		{"another Pod under the MAC", strings.Replace(signed, "P-a-0", "P-b-0", 1), key, sandbox.Pin{}, "its mac is wrong"},
		{"an empty MAC", plain + " mac=", key, sandbox.Pin{}, "its mac is wrong"},
		{"a MAC that is no base64", plain + " mac=!", key, sandbox.Pin{}, "must be v1"},
		{"two MACs", signed + " mac=x", key, sandbox.Pin{}, "must be v1"},
	} {
		got, err := sandbox.ParsePin(tc.text, tc.key)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", tc.rule, got, err, tc.want, tc.err)
		}
	}
}

// FuzzPin: what is read is written back as it was, and no text is two pins.
func FuzzPin(f *testing.F) {
	p := sandbox.Pin{Sandbox: "S-a", Pod: "P-a-0", Generation: 7, Container: "x://1"}
	f.Add(p.Text(nil), "")
	f.Add(p.Text([]byte("k")), "k")
	f.Add("v1 sandbox=s pod=p generation=0 container=- mac=", "k")
	f.Fuzz(func(t *testing.T, text, key string) {
		got, err := sandbox.ParsePin(text, []byte(key))
		if err == nil && got.Text([]byte(key)) != text {
			t.Errorf("%q is read as %+v, which is written %q", text, got, got.Text([]byte(key)))
		}
		if err != nil && got != (sandbox.Pin{}) {
			t.Errorf("%q: %v, and yet %+v", text, err, got)
		}
	})
}
