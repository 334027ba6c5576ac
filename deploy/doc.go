// Package deploy has the tests of what an operator deploys: the chart, the
// Dockerfile and the README beside them.
//
// It is a module of its own. Helm, the parser of Dockerfiles and the writers of
// images and SBOMs are big; the service needs none of them, and lab/tools, which
// is the other module with big dependencies, would build etcd and kube-apiserver
// anew whenever one of them changes.
package deploy
