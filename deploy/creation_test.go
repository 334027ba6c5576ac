package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// 10 of the pitfalls of the creation SLI: Events, Nodes and a Lease are permissions
// that nobody gets who has not asked for the SLI.
func TestPitfall10RBAC(t *testing.T) {
	for _, tc := range []struct {
		name, values string
		want         []string
	}{
		{"without", "", []string{"ClusterRole samepod-gateway: pods get,list,watch"}},
		{"without, in namespaces", "watchNamespaces: [sandboxes]", []string{"Role sandboxes/samepod-gateway: pods get,list,watch"}},
		{"with", "creationSLI: {enabled: true}", []string{
			"ClusterRole samepod-gateway: nodes get,list,watch", "ClusterRole samepod-gateway: pods,events get,list,watch",
			"Role gateway/samepod-creation: leases create", "Role gateway/samepod-creation: leases samepod-creation get,update",
		}},
		{"with, in namespaces", "{watchNamespaces: [sandboxes], creationSLI: {enabled: true}}", []string{
			"ClusterRole samepod-gateway: nodes get,list,watch",
			"Role gateway/samepod-creation: leases create", "Role gateway/samepod-creation: leases samepod-creation get,update",
			"Role sandboxes/samepod-gateway: pods,events get,list,watch",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects := mustRender(t, "gateway", least, tc.values)
			var got []string
			add := func(name string, rules []rbacv1.PolicyRule) {
				for _, r := range rules {
					got = append(got, fmt.Sprint(name, ": ", strings.Join(strings.Fields(strings.Join(r.Resources, ",")+" "+strings.Join(r.ResourceNames, ",")+" "+strings.Join(r.Verbs, ",")), " ")))
				}
			}
			bound := map[string]bool{}
			for _, r := range findAll[rbacv1.ClusterRole](t, objects, "ClusterRole") {
				add("ClusterRole "+r.Name, r.Rules)
				bound["ClusterRole "+r.Name] = false
			}
			for _, r := range findAll[rbacv1.Role](t, objects, "Role") {
				add("Role "+r.Namespace+"/"+r.Name, r.Rules)
				bound["Role "+r.Namespace+"/"+r.Name] = false
			}
			for _, b := range findAll[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
				bound["ClusterRole "+b.RoleRef.Name] = b.Subjects[0].Name == "samepod" && b.Subjects[0].Namespace == "gateway"
			}
			for _, b := range findAll[rbacv1.RoleBinding](t, objects, "RoleBinding") {
				bound["Role "+b.Namespace+"/"+b.RoleRef.Name] = b.Subjects[0].Name == "samepod" && b.Subjects[0].Namespace == "gateway"
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			for role, is := range bound {
				if !is {
					t.Errorf("%s is bound to nobody", role)
				}
			}
			args := find[appsv1.StatefulSet](t, objects, "StatefulSet").Spec.Template.Spec.Containers[0].Args
			if has := slices.Contains(args, "--creation-sli") && slices.Contains(args, "--creation-lease=gateway/samepod-creation"); has != strings.HasPrefix(tc.name, "with,") && has != (tc.name == "with") {
				t.Errorf("%v", args)
			}
		})
	}
}

// TestCreationReplicas: with its permissions from the chart and nothing else, one of
// two replicas counts.
func TestCreationReplicas(t *testing.T) {
	i := install(t, "creationSLI: {enabled: true}")
	args := []string{"--creation-sli", "--creation-lease", i.namespace + "/samepod-creation"}
	first, second := i.run(args...), i.run(args...)
	eventually(t, "exactly one counts", func() bool {
		a, errA := first.Metric("samepod_pod_sandbox_counting")
		b, errB := second.Metric("samepod_pod_sandbox_counting")
		return errA == nil && errB == nil && a+b == 1
	})
}
