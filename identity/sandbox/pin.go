package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/samepod/samepod/identity"
)

// PinAnnotation is where a pin stands on the engine's object.
const PinAnnotation = "samepod.dev/pin"

// Pin says which Pod a sandbox was given when it was first let through. It is written
// before that, and "still the same Pod" is measured against it. It is comparable, and
// the zero Pin is none.
type Pin struct {
	// Sandbox is the uid of the engine's object: a pin that was copied to another one
	// is worth nothing.
	Sandbox identity.UID
	Pod     identity.UID
	// Generation is that of the sandbox (see [Sandbox.Generation]) when it was written.
	Generation int64
	// Container is the id of the Pod's first container, or "" where containers are not pinned.
	Container string
}

// Text is the one text of p that [ParsePin] reads:
//
//	v1 sandbox=<uid> pod=<uid> generation=<n> container=<id> mac=<base64>
//
// with "-" for no container. The MAC, HMAC-SHA-256 over what stands before it, is there
// if there is a key.
func (p Pin) Text(key []byte) string {
	container := p.Container
	if container == "" {
		container = "-"
	}
	text := fmt.Sprintf("v1 sandbox=%s pod=%s generation=%d container=%s", p.Sandbox, p.Pod, p.Generation, container)
	if len(key) == 0 {
		return text
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + " mac=" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ParsePin reads a pin. With a key the MAC must be there and right; without one there
// must be none, since nobody could tell whether it is.
func ParsePin(text string, key []byte) (Pin, error) {
	errForm := errors.New("must be v1 sandbox=<uid> pod=<uid> generation=<n> container=<id>, and mac=<base64> if there is a key")
	body, mac, signed := strings.Cut(text, " mac=")
	fields := strings.Split(body, " ")
	if len(fields) != 5 || fields[0] != "v1" {
		return Pin{}, errForm
	}
	var value [4]string
	for i, name := range [...]string{"sandbox", "pod", "generation", "container"} {
		after, ok := strings.CutPrefix(fields[i+1], name+"=")
		if !ok || after == "" {
			return Pin{}, errForm
		}
		value[i] = after
	}
	var p Pin
	var errs [3]error
	p.Sandbox, errs[0] = identity.ParseUID(value[0])
	p.Pod, errs[1] = identity.ParseUID(value[1])
	p.Generation, errs[2] = strconv.ParseInt(value[2], 10, 64)
	if errors.Join(errs[:]...) != nil || strings.ContainsFunc(value[3], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Pin{}, errForm
	}
	if value[3] != "-" {
		p.Container = value[3]
	}
	switch {
	case signed && len(key) == 0:
		return Pin{}, errors.New("has a mac, and there is no key to check it; give every replica the same --pin-key-file")
	case !signed && len(key) > 0:
		return Pin{}, errors.New("has no mac, and a key asks for one")
	case !hmac.Equal([]byte(p.Text(key)), []byte(text)):
		if _, err := base64.RawURLEncoding.DecodeString(mac); signed && err == nil {
			return Pin{}, errors.New("its mac is wrong: somebody else wrote it, or with another key")
		}
		return Pin{}, errForm
	}
	return p, nil
}

// judge says what the pin of s makes of a Pod. follow accepts a new Pod in the place of
// the pinned one; containers compares containers too.
func (p Pin) judge(s *Sandbox, pod *identity.Pod, follow, containers bool) identity.PinState {
	switch {
	case s.PinFault != "":
		return identity.PinRefused
	case p == Pin{}:
		return identity.PinWanted
	case p.Sandbox != s.UID:
		return identity.PinRefused
	}
	moved := s.Generation > p.Generation
	switch {
	case moved:
		// The engine itself says that the Pod was changed since: also what is the same
		// is pinned anew, or the next change would need no reason.
		return identity.PinWanted
	case p.Pod != pod.UID, s.Generation < p.Generation:
		if follow {
			return identity.PinWanted
		}
		return identity.PinBroken
	case containers && p.Container != pod.Container:
		if follow || p.Container == "" {
			return identity.PinWanted
		}
		return identity.PinRestarted
	}
	return identity.PinHolds
}
