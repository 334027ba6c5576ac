package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Lab owns what an experiment starts: a directory for its files and logs, and
// every process and server, which [Lab.Close] ends in the reverse order.
type Lab struct {
	Dir string

	mu    sync.Mutex
	close []func()
}

// New makes a lab in dir.
func New(dir string) *Lab { return &Lab{Dir: dir} }

// Close ends everything that was started.
func (l *Lab) Close() {
	l.mu.Lock()
	all := l.close
	l.close = nil
	l.mu.Unlock()
	for _, f := range slices.Backward(all) {
		f()
	}
}

// onClose registers f to run when the lab closes.
func (l *Lab) onClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close = append(l.close, f)
}

// Process is a running program. Its output is in files of the lab's directory.
type Process struct {
	Name     string
	Out, Err string // paths
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
	err      error         // of Wait, after done
}

// Start runs a program until it ends, [Process.Stop] or [Lab.Close].
func (l *Lab) Start(name, path string, args ...string) (*Process, error) {
	return l.run(name, exec.Command(path, args...))
}

// run starts a command. What it writes goes to files, where the caller does not take it.
func (l *Lab) run(name string, cmd *exec.Cmd) (*Process, error) {
	file := filepath.Join(l.Dir, name)
	for n := 2; exists(file + ".out"); n++ { // a program that is started again keeps the log of its first life
		file = filepath.Join(l.Dir, fmt.Sprintf("%s-%d", name, n))
	}
	p := &Process{Name: name, Out: file + ".out", Err: file + ".err", cmd: cmd, done: make(chan struct{})}
	out, err := os.Create(p.Out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(p.Err)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p.cmd.Stderr = errs
	if p.cmd.Stdout == nil {
		p.cmd.Stdout = out
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // not to outlive a test that is killed
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	l.onClose(func() { p.Kill() })
	return p, nil
}

// Output runs a program to its end and returns what it printed.
func Output(ctx context.Context, path string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s: %w\n%s", path, err, exit.Stderr)
	}
	return out, err
}

// Stop asks the process to end (SIGTERM), waits up to grace, and then kills it.
// It reports how it ended.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return p.err
	case <-time.After(grace):
		p.Kill()
		return fmt.Errorf("%s: did not end within %v", p.Name, grace)
	}
}

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Alive reports whether the process still runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// tail is the end of what the process wrote, for an error.
func (p *Process) tail() string {
	const most = 4000
	var text []byte
	for _, path := range []string{p.Out, p.Err} {
		all, err := os.ReadFile(path)
		if err == nil {
			text = append(text, all[max(0, len(all)-most):]...)
		}
	}
	return string(text)
}

// wait polls until ok, at most for limit, and gives up early when the process has
// ended. A nil process is none.
func wait(ctx context.Context, p *Process, what string, limit time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if p != nil && !p.Alive() {
			return fmt.Errorf("%s: %s has ended: %w\n%s", what, p.Name, p.err, p.tail())
		}
		select {
		case <-ctx.Done():
			if p != nil {
				return fmt.Errorf("%s: not within %v\n%s", what, limit, p.tail())
			}
			return fmt.Errorf("%s: not within %v", what, limit)
		case <-tick.C:
		}
	}
	return nil
}

// freePort returns a TCP port of 127.0.0.1 that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// get is a small GET of an admin interface.
func get(url string) (int, []byte, error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}
