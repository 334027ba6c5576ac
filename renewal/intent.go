package renewal

import (
	"encoding/json"
	"time"
)

// Sandbox is whose life is renewed.
type Sandbox struct {
	Namespace string
	ID        string // the engine's, not the object's name
}

// Intent says that a sandbox was in use. It is the message of OpenSandbox's ingress
// (components/ingress/pkg/renewintent) without the path of the request, which the
// server does not read and nobody else should.
type Intent struct {
	Sandbox
	Port       uint16    // of the Pod; 0 if unknown
	ObservedAt time.Time // the server drops what is older than 5 minutes by its own clock
}

// encode is the intent as the server's consumer reads it.
func (i Intent) encode() []byte {
	message, err := json.Marshal(struct {
		Namespace  string    `json:"namespace,omitempty"`
		SandboxID  string    `json:"sandbox_id"`
		ObservedAt time.Time `json:"observed_at"` // RFC 3339 with nanoseconds
		Port       uint16    `json:"port,omitempty"`
	}{i.Namespace, i.ID, i.ObservedAt.UTC(), i.Port})
	if err != nil {
		panic(err) // two strings, a number, and a time of this millennium
	}
	return message
}
