package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
)

const (
	// mostFound bounds what one question of [Live.Find] is answered with: two are
	// ambiguous already, and tenants can label as many objects as they like.
	mostFound = 10
	// mostQuestions bounds how many of them are under way for one claim.
	mostQuestions = 8
	// questionsPerSecond bounds them for all claims: anybody can make a name up, which is
	// then asked for by every name of every kind in every namespace of the scope.
	questionsPerSecond = 200
)

// Find implements [sandbox.Live].
func (l *Live) Find(ctx context.Context, c identity.Claim) ([]sandbox.Sandbox, error) {
	namespaces := l.namespaces
	switch {
	case namespaces == nil:
		namespaces = []string{c.Namespace}
	case c.Namespace != "" && !slices.Contains(namespaces, c.Namespace):
		return nil, nil
	case c.Namespace != "":
		namespaces = []string{c.Namespace}
	}
	questions := l.questions(c, namespaces)
	if !l.budget.AllowN(time.Now(), min(len(questions), l.budget.Burst())) {
		return nil, fmt.Errorf("%w: of names that are not known", sandbox.ErrBusy)
	}
	var group errgroup.Group
	group.SetLimit(mostQuestions)
	answers := make([][]sandbox.Sandbox, len(questions))
	for i, q := range questions {
		group.Go(func() (err error) {
			answers[i], err = l.list(ctx, q)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return distinct(answers), nil
}

// question is a list of one kind in one namespace, or in all.
type question struct {
	kind      LiveKind
	namespace string
	options   metav1.ListOptions
}

// questions are those that find whatever the claim may mean.
func (l *Live) questions(c identity.Claim, namespaces []string) []question {
	var all []question
	for _, k := range l.kinds {
		for _, q := range k.Queries(c) {
			options, possible := listOptions(q)
			if !possible {
				continue
			}
			for _, namespace := range namespaces {
				all = append(all, question{k, namespace, options})
			}
		}
	}
	return all
}

// distinct joins answers: a sandbox may answer to several questions.
func distinct(answers [][]sandbox.Sandbox) []sandbox.Sandbox {
	var all []sandbox.Sandbox
	for _, answer := range answers {
		for _, s := range answer {
			if !slices.ContainsFunc(all, func(other sandbox.Sandbox) bool { return other.UID == s.UID }) {
				all = append(all, s)
			}
		}
	}
	return all
}

// listOptions are those of a list that answers q. What no object can be labelled with is
// not asked for.
func listOptions(q sandbox.Query) (options metav1.ListOptions, possible bool) {
	options.Limit = mostFound
	if q.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name).String()
		return options, true
	}
	is, err := labels.NewRequirement(q.Label, selection.Equals, []string{q.Value})
	if err != nil {
		return options, false
	}
	options.LabelSelector = is.String()
	return options, true
}

func (l *Live) list(ctx context.Context, q question) ([]sandbox.Sandbox, error) {
	list, err := ask(ctx, l, q.kind, func(ctx context.Context, version string) (*unstructured.UnstructuredList, error) {
		return l.objects.objects(q.kind.Resource, version, q.namespace).List(ctx, q.options)
	})
	if none(err) {
		return nil, nil
	}
	if err == nil {
		err = q.kind.checkList(list)
	}
	if err != nil {
		return nil, mapped(err)
	}
	all := make([]sandbox.Sandbox, len(list.Items))
	for i, item := range list.Items {
		all[i] = q.kind.Decode(item.Object)
	}
	return all, nil
}
