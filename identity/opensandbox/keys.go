package opensandbox

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Keys check the signatures of routes. The zero Keys has none, and no format of package
// fmt shows them.
type Keys struct{ secrets map[byte][]byte }

// ParseKeys reads keys as the ingress's flag --secure-access-keys has them:
//
//	a=BASE64,b=BASE64
//
// with one character of 0-9 and a-z for each, on one line or several. A repeated one is
// an error, since the ingress and its readers would take different ones for it. Errors
// name the place and not the text, which is secret.
func ParseKeys(text string) (Keys, error) {
	secrets := map[byte][]byte{}
	separator := func(r rune) bool { return r == ',' || r == '\n' }
	for i, key := range strings.FieldsFunc(text, separator) {
		key = strings.TrimSpace(key)
		if key == "" {
			continue
		}
		id, encoded, found := strings.Cut(key, "=")
		id, encoded = strings.TrimSpace(id), strings.TrimSpace(encoded)
		switch secret, err := base64.StdEncoding.DecodeString(encoded); {
		case !found || len(id) != 1 || !isLowerAlnum(id[0]):
			return Keys{}, fmt.Errorf("key %d: must be <id>=<base64>, with one character of 0-9 and a-z for the id", i+1)
		case err != nil, len(secret) == 0:
			return Keys{}, fmt.Errorf("key %d, %q: must have a secret in standard base64, with its padding", i+1, id)
		case secrets[id[0]] != nil:
			return Keys{}, fmt.Errorf("key %d: there is another one of the id %q", i+1, id)
		default:
			secrets[id[0]] = secret
		}
	}
	if len(secrets) == 0 {
		return Keys{}, errors.New("empty; allowed: keys as <id>=<base64>, separated by commas or line ends")
	}
	return Keys{secrets}, nil
}

// Format implements [fmt.Formatter].
func (Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(secret)")) }

// LogValue implements [slog.LogValuer].
func (Keys) LogValue() slog.Value { return slog.StringValue("(secret)") }

func isLowerAlnum(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' }
