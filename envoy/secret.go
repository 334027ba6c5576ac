package envoy

import (
	"path"
	"regexp"
	"strings"
)

// A secret is a file beside Envoy's own configuration that names PEM files. Envoy
// reads PEM files again only if they are named in such a file, and a file can hold
// one secret only.

// The names of the secrets in their files and in the cluster.
const (
	caSecret     = "samepod_ca"
	clientSecret = "samepod_client"
)

var spiffeID = regexp.MustCompile(`^spiffe://[a-z0-9._-]{1,255}(/[A-Za-z0-9._-]+)+$`)

const allowedPath = "allowed: an absolute path of printable ASCII on Envoy's machine"

func isPath(s string) bool { return strings.HasPrefix(s, "/") && plainText.MatchString(s) }

// secret is what the template of a secret sees.
type secret struct{ Name, Cert, Key, CA, Watched string }

// CASecret renders the secret of the CA that vouches for samepod, which is in this
// PEM file.
func CASecret(ca string) ([]byte, error) {
	if !isPath(ca) {
		return nil, problem("ca", "%q; %s", ca, allowedPath)
	}
	return execute("secret", secret{Name: caSecret, CA: ca, Watched: path.Dir(ca)})
}

// ClientSecret renders the secret of the certificate that Envoy shows to samepod,
// which is in these PEM files. They are read together, so they must be in one
// directory.
func ClientSecret(cert, key string) ([]byte, error) {
	switch {
	case !isPath(cert):
		return nil, problem("cert", "%q; %s", cert, allowedPath)
	case !isPath(key):
		return nil, problem("key", "%q; %s", key, allowedPath)
	case path.Dir(cert) != path.Dir(key):
		return nil, problem("key", "%q; allowed: a file in the directory of the certificate, %s: Envoy watches one directory, and reads both at once", key, path.Dir(cert))
	}
	return execute("secret", secret{Name: clientSecret, Cert: cert, Key: key, Watched: path.Dir(cert)})
}
