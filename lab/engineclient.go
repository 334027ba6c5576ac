package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// EngineClient is an engine's own SDK in a process, with one sandbox object in it that
// lives, with all that it caches, until [EngineClient.Quit] or the lab's end.
type EngineClient struct {
	*Process
	steps   io.WriteCloser
	answers *os.File
	lines   *bufio.Reader
}

// A ClientStep is what the SDK is told to do. Do is connect, create, command, upload or
// read; of OpenSandbox's Python SDK also pause, resume or renew.
//
// What waits for a controller, such as create, is for a goroutine of its own: the test
// is the controller.
type ClientStep struct {
	Do string `json:"do"`

	// Of connect, create and resume.
	Server       string `json:"server,omitempty"`       // OpenSandbox: host:port of the server; agent-sandbox: URL of the router
	Sandbox      string `json:"sandbox,omitempty"`      // OpenSandbox: its id
	ServerProxy  bool   `json:"serverProxy,omitempty"`  // OpenSandbox: by way of the server's own proxy
	SkipHealth   bool   `json:"skipHealth,omitempty"`   // OpenSandbox: without a ping
	Seconds      int    `json:"seconds,omitempty"`      // OpenSandbox: how long to ping, 10 if 0; of renew: from now
	SecureAccess bool   `json:"secureAccess,omitempty"` // OpenSandbox: of create
	Claim        string `json:"claim,omitempty"`        // agent-sandbox: of the sandbox
	Namespace    string `json:"namespace,omitempty"`    // agent-sandbox: of the claim
	Port         int    `json:"port,omitempty"`         // agent-sandbox: of the runtime

	Command string `json:"command,omitempty"`
	Path    string `json:"path,omitempty"`
	Content string `json:"content,omitempty"`
}

// A ClientAnswer is what came of a step: output, or what the SDK raised.
type ClientAnswer struct {
	OK        bool
	Output    string // of a command, a file's contents, or the id of what was created
	Error     string // name of the exception
	Status    int    // HTTP status in it, 0 for none
	Message   string // what its user reads
	Body      string // of the HTTP answer, where the exception has it beside the message
	Retryable bool   // what the Python SDK of OpenSandbox says
}

// StartOpenSandboxClient runs OpenSandbox's Python SDK.
func (l *Lab) StartOpenSandboxClient(ctx context.Context) (*EngineClient, error) {
	python, err := EnginesPython(ctx)
	if err != nil {
		return nil, err
	}
	script, err := engineFile("opensandbox_client.py")
	if err != nil {
		return nil, err
	}
	return l.converse("opensandbox-client", engineCommand(l.Dir, python, script))
}

// StartOpenSandboxNodeClient runs OpenSandbox's JavaScript SDK.
func (l *Lab) StartOpenSandboxNodeClient(ctx context.Context) (*EngineClient, error) {
	dir, err := EnginesNode(ctx)
	if err != nil {
		return nil, err
	}
	script, err := engineFile("opensandbox_client.mjs")
	if err != nil {
		return nil, err
	}
	return l.converse("opensandbox-node-client", engineCommand(l.Dir, "node", script, dir))
}

// StartAgentSandboxClient runs agent-sandbox's Python client, which asks the API server
// for SandboxClaims and Sandboxes of v1beta1.
func (l *Lab) StartAgentSandboxClient(ctx context.Context, kube *Kube) (*EngineClient, error) {
	python, err := EnginesPython(ctx)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := kube.Kubeconfig(userAdmin, kube.URL)
	if err != nil {
		return nil, err
	}
	script, err := engineFile("agentsandbox_client.py")
	if err != nil {
		return nil, err
	}
	cmd := engineCommand(l.Dir, python, script)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+kubeconfig)
	return l.converse("agentsandbox-client", cmd)
}

// converse starts a command whose standard input and output are the caller's.
func (l *Lab) converse(name string, cmd *exec.Cmd) (*EngineClient, error) {
	steps, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout = out
	p, err := l.run(name, cmd)
	if err != nil {
		answers.Close()
		return nil, err
	}
	l.onClose(func() { answers.Close() })
	return &EngineClient{Process: p, steps: steps, answers: answers, lines: bufio.NewReader(answers)}, nil
}

// clientPatience is how long a step may take: the SDKs retry for some seconds.
const clientPatience = 90 * time.Second

// Do tells the SDK to take a step and waits for its answer. An exception of the SDK's
// is an answer; an error is a driver that does not do its work.
func (c *EngineClient) Do(step ClientStep) (answer ClientAnswer, err error) {
	text, err := json.Marshal(step)
	if err != nil {
		return answer, err
	}
	if _, err := c.steps.Write(append(text, '\n')); err != nil {
		return answer, fmt.Errorf("%s: %w\n%s", c.Name, err, c.tail())
	}
	if err := c.answers.SetReadDeadline(time.Now().Add(clientPatience)); err != nil {
		return answer, err
	}
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return answer, fmt.Errorf("%s: %s: %w\n%s", c.Name, step.Do, err, c.tail())
	}
	return answer, json.Unmarshal(line, &answer)
}

// Command tells the SDK to run a command.
func (c *EngineClient) Command(command string) (ClientAnswer, error) {
	return c.Do(ClientStep{Do: "command", Command: command})
}

// Upload tells the SDK to write a file.
func (c *EngineClient) Upload(path, content string) (ClientAnswer, error) {
	return c.Do(ClientStep{Do: "upload", Path: path, Content: content})
}

// Read tells the SDK to read a file.
func (c *EngineClient) Read(path string) (ClientAnswer, error) {
	return c.Do(ClientStep{Do: "read", Path: path})
}

// Quit ends the process as its user would.
func (c *EngineClient) Quit() error {
	if err := c.steps.Close(); err != nil {
		return err
	}
	<-c.done
	return c.err
}
