package opensandbox_test

import (
	_ "embed"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
	"github.com/samepod/samepod/identity/sandbox"
)

// signedRoutes are routes as opensandbox-server signs them, made by the server's own
// functions (lab/testdata/engines/signed_routes.py).
//
//go:embed testdata/signed-routes.json
var signedRoutes []byte

type signedRoute struct {
	Sandbox           string
	Port              uint16
	Expires           uint64
	KeyID, Key        string
	ExpiresB36        string
	Signature         string
	Header, URI, Host string
}

func itoa(port uint16) string { return fmt.Sprint(port) }

// far is a time that is not over in the time of synctest, which is 2000, and in ours.
const far = "1vuhmo0" // 2100

// TestAccess is who may enter, one claim a line. The signatures are the server's, of
// testdata/signed-routes.json: of the sandbox a, port 44772, until 2100.
func TestAccess(t *testing.T) {
	const (
		signature = "e8438980a"
		in        = identity.Bound
		denied    = identity.AccessDenied
	)
	keys := must(opensandbox.ParseKeys("a=c2VjcmV0LWtleQ==,b=YWJj"))
	access := func(token identity.Secret, expires, signature string) identity.Access {
		return identity.Access{Token: token, Expires: expires, Signature: signature, Path: "/rest"}
	}
	for _, tc := range []struct {
		rule   string
		keys   opensandbox.Keys
		token  identity.Secret // of the sandbox
		access identity.Access
		want   identity.TargetState
		path   string
	}{
		{"nothing is asked for", keys, "", identity.Access{}, in, "/plain"},
		{"nothing is asked for, so a token is noise", keys, "", access("t", "", ""), in, "/plain"},
		{"nothing is asked for, so a signature is a path", keys, "", access("", far, signature), in, "/plain"},
		{"nothing is asked for, so a wrong signature is a path too", keys, "", access("", "0", "00000000a"), in, "/plain"},

		{"the token", keys, "t", identity.Access{Token: "t"}, in, "/plain"},
		{"the token, and no keys here", opensandbox.Keys{}, "t", identity.Access{Token: "t"}, in, "/plain"},
		{"the token is enough where the signature is wrong", keys, "t", access("t", far, "00000000a"), in, "/rest"},
		{"a wrong token", keys, "t", identity.Access{Token: "u"}, denied, ""},
		{"a token that is too long", keys, "t", identity.Access{Token: "tt"}, denied, ""},
		{"a wrong token with a good signature", keys, "t", access("u", far, signature), denied, ""},
		{"nothing", keys, "t", identity.Access{}, denied, ""},
		{"nothing, and no keys here", opensandbox.Keys{}, "t", identity.Access{}, denied, ""},

		{"signed", keys, "t", access("", far, signature), in, "/rest"},
		{"signed, and no keys here", opensandbox.Keys{}, "t", access("", far, signature), identity.AccessUnverifiable, ""},
		{"signed by an unknown key", keys, "t", access("", far, "e8438980c"), denied, ""},
		{"signed by another key", keys, "t", access("", far, "e8438980b"), denied, ""},
		{"signed otherwise", keys, "t", access("", far, "e8438981a"), denied, ""},
		{"signed for another time", keys, "t", access("", "1vuhmo1", signature), denied, ""},
		{"signed in another form", keys, "t", access("", far, "e8438980aa"), denied, ""},
		{"no time", keys, "t", access("", "", signature), denied, ""},
	} {
		c := identity.Claim{Sandbox: "a", Port: 44772, Path: "/plain", Access: tc.access}
		state, path := tc.keys.Access(c, &sandbox.Sandbox{Token: tc.token})
		if state != tc.want || path != tc.path {
			t.Errorf("%s: %v %q, want %v %q", tc.rule, state, path, tc.want, tc.path)
		}
	}
	for _, c := range []identity.Claim{{Sandbox: "b", Port: 44772}, {Sandbox: "a", Port: 44773}} {
		c.Access = access("", far, signature)
		if state, _ := keys.Access(c, &sandbox.Sandbox{Token: "t"}); state != denied {
			t.Errorf("signed for another route than %s-%d: %v", c.Sandbox, c.Port, state)
		}
	}
}

// TestSignedRoutes lets the server's own routes in, in the three forms that it gives
// them, until they are over and not a second longer.
func TestSignedRoutes(t *testing.T) {
	for _, route := range readJSON[[]signedRoute](t, signedRoutes) {
		keys := must(opensandbox.ParseKeys(route.KeyID + "=" + route.Key))
		requires := &sandbox.Sandbox{Token: "t"}
		// The part before the base path is the gateway's address.
		_, path, _ := strings.Cut(route.URI, "/base")
		for _, form := range []struct {
			mode opensandbox.Mode
			req  request
		}{
			{opensandbox.HeaderMode, to(route.Header)},
			{opensandbox.HeaderMode, request{host: route.Host}},
			{opensandbox.URIMode, request{path: path + "/command"}},
		} {
			c, err := opensandbox.Routes{Mode: form.mode}.Claim(form.req)
			if err != nil || c.Sandbox != route.Sandbox || c.Port != route.Port || c.Access.Expires != route.ExpiresB36 || c.Access.Signature != route.Signature {
				t.Errorf("%v %v: %+v, %v", form.mode, route, c, err)
				continue
			}
			synctest.Test(t, func(t *testing.T) { // it begins in 2000
				over := int64(min(route.Expires, 1<<40)) - time.Now().Unix()
				if over >= 0 && over < 1<<32 {
					time.Sleep(time.Duration(over) * time.Second)
				}
				want := identity.Bound
				if over < 0 {
					want = identity.AccessDenied
				}
				if state, path := keys.Access(c, requires); state != want || state == identity.Bound && path != c.Access.Path {
					t.Errorf("%v %v: %v %q, want %v", form.mode, route, state, path, want)
				}
				if over < 0 || over >= 1<<32 {
					return
				}
				time.Sleep(time.Second)
				if state, _ := keys.Access(c, requires); state != identity.AccessDenied {
					t.Errorf("%v %v: %v a second after its end", form.mode, route, state)
				}
			})
		}
	}
}

func TestParseKeys(t *testing.T) {
	for _, tc := range []struct {
		rule, text string
		ok         bool
	}{
		{"one", "a=YWJj", true},
		{"two", "a=YWJj,0=YWJj", true},
		{"on lines", "a=YWJj\nb=YWJj\n", true},
		{"on lines of Windows, with commas and spaces", " a = YWJj ,\r\n b=YWJj,,", true},
		{"padding", "a=YQ==", true},
		{"nothing", "", false},
		{"only separators", " ,\n", false},
		{"no id", "=YWJj", false},
		{"no separator", "aYWJj", false},
		{"no secret", "a=", false},
		{"an id of two", "ab=YWJj", false},
		{"an id in upper case", "A=YWJj", false},
		{"an id of another script", "ä=YWJj", false},
		{"no base64", "a=!!!", false},
		{"no padding", "a=YQ", false},
		{"base64 for URLs", "a=_-==", false},
		{"an id twice", "a=YWJj,a=ZGVm", false},
	} {
		if _, err := opensandbox.ParseKeys(tc.text); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.rule, err)
		}
	}
}

// TestKeysAreSecret looks for a key in everything that prints.
func TestKeysAreSecret(t *testing.T) {
	const secret = "c2VjcmV0LWtleQ=="
	keys := must(opensandbox.ParseKeys("a=" + secret))
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("keys", "keys", keys)
	printed := fmt.Sprintf("%v %+v %#v %s %d %x %v", keys, keys, keys, keys, keys, keys, struct{ K any }{keys}) + log.String()
	for _, text := range []string{"a=" + secret + "x", secret, "aa=" + secret, "a=" + secret + ",a=" + secret} {
		_, err := opensandbox.ParseKeys(text)
		printed += fmt.Sprint(err)
	}
	for _, part := range []string{secret, secret[:8], "secret-key", "736563", "115 101 99"} {
		if strings.Contains(printed, part) {
			t.Errorf("%q is printed: %s", part, printed)
		}
	}
}

// FuzzKeys: keys that are read check what they signed, and errors do not tell them.
func FuzzKeys(f *testing.F) {
	f.Add("a=YWJj,b=ZGVm")
	f.Add("a=YWJj\n\nz=AA==\r\n")
	f.Add("=,a")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := opensandbox.ParseKeys(text)
		if err != nil && len(text) > 40 && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the keys: %v", err)
		}
		c := identity.Claim{Sandbox: "a", Port: 1, Access: identity.Access{Expires: far, Signature: "00000000a"}}
		if state, _ := keys.Access(c, &sandbox.Sandbox{Token: "t"}); err != nil && state != identity.AccessUnverifiable {
			t.Errorf("%q are no keys, and say %v", text, state)
		}
	})
}
