# The targets install what they need into .cache and use it again.

GOLANGCI_LINT := v2.15.0

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: build
build: ## build bin/samepod
	CGO_ENABLED=0 go build -trimpath -o bin/samepod ./cmd/samepod

.PHONY: test
test: tools ## run everything, with the race detector: units, mutants, four Envoys, a real API server
	@rm -f .cache/report.txt
	$(TIMED) go vet ./...
	$(TIMED) go test -race $$(go list ./... | grep -v /lab)
	@$(MAKE) --no-print-directory -j3 -Otarget test-lab test-mutants test-deploy
	@cat .cache/report.txt
	@echo "$$(grep -rhE '^func (Test|Fuzz)\w*\(\w+ \*testing\.[TF]\)' --include='*_test.go' * | wc -l) tests and fuzzers, $$(grep -c '^	{"' lab/mutants/mutants_test.go) mutants: all green"

TIMED := @.ci/timed

.PHONY: test-lab
test-lab: ## four Envoys, a real API server, the engines' own programs: it waits more than it computes
	$(TIMED) go test -race -count=1 -timeout 30m ./lab

.PHONY: test-mutants
test-mutants: ## break each safety property; beside the lab, for which they make way
	$(TIMED) nice -n 15 go test -count=1 -parallel 4 -timeout 40m ./lab/mutants

.PHONY: test-deploy
test-deploy: ## the chart on the API server, a release, built twice, rules and dashboard on Prometheus
	$(TIMED) nice go -C deploy vet ./...
	$(TIMED) nice go -C deploy test -count=1 -timeout 30m ./...
	$(TIMED) nice go -C deploy/monitoring/sloth test ./...
	$(TIMED) nice go -C deploy/monitoring test -timeout 30m ./...

.PHONY: tools
tools: ## get the Envoys and the sandbox engines' programs, and build etcd, kube-apiserver and runsc
	@go run ./lab/install envoys engines redis kube runsc

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
	@for f in identity:ParseAddrPort identity:ParseNames identity/podsfile:Parse identity/sandbox:Pin \
		identity/opensandbox:Route identity/opensandbox:Decode identity/opensandbox:Keys identity/agentsandbox:Route identity/agentsandbox:Decode \
		authz:Claim authz:Check authz:Connection envoy:Render cmd/samepod:Config creation:ParseCause \
		node:Classify node:ScanLog node:Configuration node:Versions node:Explain; do \
		go test -run '^$$' -fuzz "^Fuzz$${f#*:}$$" -fuzztime 30s -fuzzminimizetime 10x ./$${f%:*} || exit 1; done

.PHONY: bench
bench: ## what a check costs, what reading a list of Pods costs, and 10 MB of logs
	go test -run '^$$' -bench . -benchmem ./identity ./authz ./node

.PHONY: golden
golden: ## write the goldens and the generated parts of the documents
	go test ./envoy -run Golden -update
	go test ./cmd/samepod -run Docs -update
	go -C deploy/monitoring/sloth test -update

.PHONY: screenshot
screenshot: ## draw docs/images/creation.png anew, in Debian's Chromium (4 minutes)
	@command -v chromium-headless-shell >/dev/null || apt-get install -y --no-install-recommends chromium-headless-shell
	mkdir -p .cache/uplot docs/images && cp deploy/monitoring/testdata/screenshot/package*.json .cache/uplot
	cd .cache/uplot && npm ci --ignore-scripts --no-audit --no-fund
	go -C deploy/monitoring test -count=1 -run Screenshot -update .

.PHONY: size
size: ## what a samepod costs that watches 1 000, 20 000 and 100 000 Pods (half an hour)
	go test -run '^$$' -bench Size -benchtime 1x -timeout 2h ./lab

.PHONY: release
release: ## build the release VERSION=v1.2.3 of HEAD into bin/release, twice, and compare
	go -C deploy run ./release -verify $(VERSION)

.PHONY: demo
demo: ## play the incident on a real Envoy, without and with samepod; DIALECT=opensandbox or agent-sandbox on a real API server
	@go run ./lab/install envoy-newest $(if $(DIALECT),kube)
	@go run ./lab/demo $(if $(DIALECT),-dialect $(DIALECT))

.PHONY: demo-up
demo-up: ## the same, and leave it running for a curl by hand
	@go run ./lab/install envoy-newest $(if $(DIALECT),kube)
	@go run ./lab/demo -up $(if $(DIALECT),-dialect $(DIALECT))

.PHONY: demo-kube
demo-kube: ## the same on a real etcd and kube-apiserver
	@go run ./lab/install envoy-newest kube
	@go run ./lab/demo -kube
