package mtls

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Keeper keeps what the files say, and the last good state of it while they say
// nothing good.
type Keeper struct {
	files   Files
	clients Identities
	log     *slog.Logger
	config  atomic.Pointer[tls.Config] // what is in force
	refused [refusals]refusalCount

	mu    sync.Mutex
	read  content // that config was made of
	fault string
}

// State is what an operator should know.
type State struct {
	NotAfter time.Time // of the certificate in force
	Fault    string    // why the files are not in force; "" if they are
	Refused  map[Refusal]uint64
}

// Open reads the files once. What is broken at the start is an error.
func Open(files Files, clients Identities, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{files: files, clients: clients, log: log}
	return k, k.look(time.Now())
}

// look reads the files and puts them in force if they are good.
func (k *Keeper) look(now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err := k.files.read()
	if err == nil && k.config.Load() != nil && c.equal(k.read) {
		k.fault = ""
		return nil
	}
	var config *tls.Config
	if err == nil {
		config, err = k.files.config(c, k.clients, now)
	}
	if err != nil {
		k.fault = err.Error()
		return err
	}
	k.config.Store(config)
	k.read, k.fault = c, ""
	leaf := config.Certificates[0].Leaf
	k.log.Info("the certificate is in force", "file", k.files.Cert, "serial", leaf.SerialNumber.Text(16), "names", namesOf(leaf), "notAfter", instant(leaf.NotAfter), "clients", k.clients.String())
	return nil
}

// Run looks at the files again and again until ctx ends. It then returns nil.
func (k *Keeper) Run(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := k.look(time.Now()); err == nil {
			said = ""
		} else if text := err.Error(); text != said {
			said = text
			k.log.Error("cannot use the TLS files; the last good certificate and client CA stay in force", "notAfter", instant(k.leafNotAfter()), "err", err)
		}
	}
}

func (k *Keeper) leafNotAfter() time.Time { return k.config.Load().Certificates[0].Leaf.NotAfter }

// State returns the present state.
func (k *Keeper) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := State{NotAfter: k.leafNotAfter(), Fault: k.fault, Refused: map[Refusal]uint64{}}
	for why := range k.refused {
		s.Refused[Refusal(why)] = k.refused[why].n.Load()
	}
	return s
}

// Expired says when every client began to refuse the certificate in force, or "".
func (s State) Expired(now time.Time) string {
	if now.After(s.NotAfter) {
		return fmt.Sprintf("the certificate expired at %s", instant(s.NotAfter))
	}
	return ""
}
