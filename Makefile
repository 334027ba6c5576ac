# The targets install what they need into .cache and use it again.

GOLANGCI_LINT := v2.15.0

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build
build: ## build bin/samepod
	CGO_ENABLED=0 go build -trimpath -o bin/samepod ./cmd/samepod

.PHONY: test
test: tools ## run everything, with the race detector: units, mutants, four Envoys, a real API server
	@rm -f .cache/report.txt
	go vet ./...
	go test -race ./authz/... ./cmd/... ./creation/... ./envoy/... ./identity/... ./mtls/...
	go test -count=1 ./lab/mutants
	go test -race -count=1 -timeout 20m ./lab
	cd deploy && go vet ./... && go test -count=1 -timeout 30m ./...
	go -C deploy/monitoring/sloth test ./... && go -C deploy/monitoring test -timeout 30m ./...
	@cat .cache/report.txt
	@echo "$$(go test -list . ./... | grep -c '^\(Test\|Fuzz\)') tests and fuzzers, $$(grep -c '^	{"' lab/mutants/mutants_test.go) mutants: all green"

.PHONY: tools
tools: ## get the Envoys, and build etcd and kube-apiserver
	@go run ./lab/install envoys kube

.PHONY: lint
lint: .cache/bin/golangci-lint-$(GOLANGCI_LINT) ## run golangci-lint as .golangci.yml says
	.cache/bin/golangci-lint-$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	cd deploy && ../.cache/bin/golangci-lint-$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	cd deploy/monitoring && ../../.cache/bin/golangci-lint-$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	cd deploy/monitoring/sloth && ../../../.cache/bin/golangci-lint-$(GOLANGCI_LINT) run --allow-parallel-runners ./...

.cache/bin/golangci-lint-$(GOLANGCI_LINT):
	@echo "building golangci-lint $(GOLANGCI_LINT) (minutes, the first time)"
	GOBIN=$(CURDIR)/.cache/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv .cache/bin/golangci-lint $@

.PHONY: fuzz
fuzz: ## run every fuzzer for 30 s
	@for f in identity:ParseAddrPort identity:ParseNames identity/podsfile:Parse authz:Claim authz:Check authz:Connection envoy:Render cmd/samepod:Config creation:ParseCause; do \
		go test -run '^$$' -fuzz "^Fuzz$${f#*:}$$" -fuzztime 30s -fuzzminimizetime 10x ./$${f%:*} || exit 1; done

.PHONY: bench
bench: ## what a check costs, and what reading a list of Pods costs
	go test -run '^$$' -bench . -benchmem ./identity ./authz

.PHONY: golden
golden: ## write the goldens and the generated parts of the documents
	go test ./envoy -run Golden -update
	go test ./cmd/samepod -run Docs -update
	go -C deploy/monitoring/sloth test -update

.PHONY: size
size: ## what a samepod costs that watches 1 000, 20 000 and 100 000 Pods (half an hour)
	go test -run '^$$' -bench Size -benchtime 1x -timeout 2h ./lab

.PHONY: release
release: ## build the release VERSION=v1.2.3 of HEAD into bin/release, twice, and compare
	go -C deploy run ./release -verify $(VERSION)

.PHONY: demo
demo: ## play the incident on a real Envoy, without and with samepod
	@go run ./lab/install envoy-newest
	@go run ./lab/demo

.PHONY: demo-up
demo-up: ## the same, and leave it running for a curl by hand
	@go run ./lab/install envoy-newest
	@go run ./lab/demo -up

.PHONY: demo-kube
demo-kube: ## the same on a real etcd and kube-apiserver
	@go run ./lab/install envoy-newest kube
	@go run ./lab/demo -kube
