package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Kube is a real etcd and a real kube-apiserver, without a kubelet: a test writes
// the status of Pods itself.
type Kube struct {
	Client kubernetes.Interface // may do everything
	URL    string
	API    *Process

	lab  *Lab
	bin  string
	args []string // of the API server
	ca   string
}

// Users of the API server. Their tokens are their names.
const (
	userAdmin   = "admin"   // may do everything
	UserSamepod = "samepod" // may get, list and watch Pods: what samepod needs
	UserReader  = "reader"  // the same, for a samepod that may write nothing
	UserNobody  = "nobody"  // may do nothing
)

// StartKube starts both and waits until the API server is ready.
func (l *Lab) StartKube(ctx context.Context) (*Kube, error) {
	bin, err := KubeBinaries(ctx)
	if err != nil {
		return nil, err
	}
	k := &Kube{lab: l, bin: bin}
	etcd, err := k.startEtcd(ctx)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	key := filepath.Join(l.Dir, "sa.key")
	if err := writeKey(key); err != nil {
		return nil, err
	}
	tokens := filepath.Join(l.Dir, "tokens.csv")
	lines := []string{userAdmin + "," + userAdmin + "," + userAdmin + `,"system:masters"`}
	for _, user := range []string{UserSamepod, UserReader, UserNobody} {
		lines = append(lines, user+","+user+","+user)
	}
	if err := os.WriteFile(tokens, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	certs := filepath.Join(l.Dir, "apiserver-certs")
	k.URL, k.ca = fmt.Sprintf("https://127.0.0.1:%d", port), filepath.Join(certs, "apiserver.crt")
	k.args = []string{
		"--etcd-servers", etcd, "--secure-port", fmt.Sprint(port), "--bind-address", "127.0.0.1", "--cert-dir", certs,
		"--advertise-address", "192.0.2.1", // nobody asks there; it would look for a default route, which a node of the lab has none of
		"--service-account-key-file", key + ".pub", "--service-account-signing-key-file", key, "--service-account-issuer", "https://lab",
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
		"--disable-admission-plugins", "ServiceAccount", "--shutdown-watch-termination-grace-period", "1s",
	}
	if err := k.StartAPI(ctx); err != nil {
		return nil, err
	}
	return k, k.grant(ctx)
}

func (k *Kube) startEtcd(ctx context.Context) (url string, err error) {
	client, err := freePort()
	if err != nil {
		return "", err
	}
	peer, err := freePort()
	if err != nil {
		return "", err
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	p, err := k.lab.Start("etcd", filepath.Join(k.bin, "etcd"), "--data-dir", filepath.Join(k.lab.Dir, "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peerURL,
		"--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL, "--unsafe-no-fsync", "--log-level", "warn")
	if err != nil {
		return "", err
	}
	return url, wait(ctx, p, "etcd is healthy", 30*time.Second, func() bool {
		status, _, err := get(url + "/health")
		return err == nil && status == http.StatusOK
	})
}

// StartAPI starts the API server, or starts it again on the same address and data.
func (k *Kube) StartAPI(ctx context.Context) error {
	var err error
	if k.API, err = k.lab.Start("kube-apiserver", filepath.Join(k.bin, "kube-apiserver"), k.args...); err != nil {
		return err
	}
	if err := wait(ctx, k.API, "the API server has a certificate", 30*time.Second, func() bool { return exists(k.ca) }); err != nil {
		return err
	}
	if k.Client, err = kubernetes.NewForConfig(k.Config()); err != nil {
		return err
	}
	return wait(ctx, k.API, "the API server is ready", 60*time.Second, func() bool {
		_, err := k.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil
	})
}

// Config is that of a client that may do everything.
func (k *Kube) Config() *rest.Config {
	return &rest.Config{Host: k.URL, BearerToken: userAdmin, TLSClientConfig: rest.TLSClientConfig{CAFile: k.ca}, QPS: 1000, Burst: 2000}
}

// grant gives them exactly what samepod needs for the dialect claim.
func (k *Kube) grant(ctx context.Context) error {
	return k.bind(ctx, "samepod", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}}, UserSamepod, UserReader)
}

// bind gives users a ClusterRole of this name; one that exists gets these rules.
func (k *Kube) bind(ctx context.Context, name string, rules []rbacv1.PolicyRule, users ...string) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	_, err := k.Client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = k.Client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: user})
	}
	_, err = k.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// GrantEngines gives a user these verbs on the engines' kinds, beside what it may do to
// Pods: get, list and watch, and patch where pins are kept on the objects.
func (k *Kube) GrantEngines(ctx context.Context, user string, verbs ...string) error {
	if user != UserSamepod && user != UserReader { // it would be a verb
		return fmt.Errorf("user %q: allowed: %s, %s", user, UserSamepod, UserReader)
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{opensandboxVersion.Group}, Resources: []string{"batchsandboxes", "pools"}, Verbs: verbs},
		{APIGroups: []string{agentGroup}, Resources: []string{"sandboxes"}, Verbs: verbs},
		{APIGroups: []string{claimVersion.Group}, Resources: []string{"sandboxclaims"}, Verbs: verbs},
	}
	return k.bind(ctx, "engines-"+user, rules, user)
}

// Kubeconfig writes a kubeconfig for a user; url is the API server's, or that of a
// proxy before it.
func (k *Kube) Kubeconfig(user, url string) (string, error) { return k.kubeconfig(user, user, url) }

// ServiceAccountKubeconfig writes a kubeconfig with a token of a ServiceAccount, as
// a Pod that runs as it would get one.
func (k *Kube) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	return k.ServiceAccountKubeconfigAt(ctx, namespace, name, k.URL)
}

// ServiceAccountKubeconfigAt is the same with another URL, such as that of a proxy
// before the API server.
func (k *Kube) ServiceAccountKubeconfigAt(ctx context.Context, namespace, name, url string) (string, error) {
	token, err := k.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return k.kubeconfig(namespace+"-"+name, token.Status.Token, url)
}

func (k *Kube) kubeconfig(user, token, url string) (string, error) {
	type object map[string]any
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "lab",
		"clusters": []object{{"name": "lab", "cluster": object{"server": url, "certificate-authority": k.ca, "tls-server-name": "127.0.0.1"}}},
		"users":    []object{{"name": user, "user": object{"token": token}}},
		"contexts": []object{{"name": "lab", "context": object{"cluster": "lab", "user": user}}},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(k.lab.Dir, fmt.Sprintf("kubeconfig-%s-%s", user, strings.NewReplacer("/", "", ":", "-").Replace(url)))
	return path, replaceFile(path, text)
}

// replaceFile writes a file that others may be reading.
func replaceFile(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := cmp.Or(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// StartStatefulSetController runs the controller that builds a deleted Pod again
// under its name.
func (k *Kube) StartStatefulSetController() (*Process, error) {
	config, err := k.Kubeconfig(userAdmin, k.URL)
	if err != nil {
		return nil, err
	}
	return k.lab.Start("statefulset-controller", filepath.Join(k.bin, "statefulset-controller"), "--kubeconfig", config)
}

// CreateNamespace creates a namespace.
func (k *Kube) CreateNamespace(ctx context.Context, name string) error {
	_, err := k.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// CreatePod creates a Pod, which is Pending and has no address.
func (k *Kube) CreatePod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return k.Client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "sandbox"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "sandbox", Image: "sandbox"}}},
	}, metav1.CreateOptions{})
}

// SetStatus writes phase and addresses as a kubelet would.
func (k *Kube) SetStatus(ctx context.Context, namespace, name string, phase corev1.PodPhase, ips ...netip.Addr) error {
	status := map[string]any{"phase": phase, "podIP": nil, "podIPs": nil}
	var list []map[string]string
	for _, ip := range ips {
		list = append(list, map[string]string{"ip": ip.String()})
	}
	if len(list) > 0 {
		status["podIP"], status["podIPs"] = list[0]["ip"], list
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = k.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// DeletePod deletes a Pod; graceful leaves it terminating, since there is no
// kubelet that would end it.
func (k *Kube) DeletePod(ctx context.Context, namespace, name string, graceful bool) error {
	grace := int64(0)
	if graceful {
		grace = 30
	}
	return k.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
}

// writeKey writes a key for service account tokens, and its public half beside it.
func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(path, private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600)
}
