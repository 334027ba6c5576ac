{{- /* What the schema cannot say: values that do not go together. */ -}}
{{- define "samepod.combinations" -}}
{{- include "samepod.engineCombinations" . }}
{{- $v := .Values }}
{{- if not $v.image.repository }}
{{- fail "image.repository: missing; allowed: where you keep the image that make release builds" }}
{{- end }}
{{- if $v.watchNamespaces }}
{{- range $n := $v.config.scope.namespaces }}
{{- if eq $n "*" }}
{{- fail (printf `config.scope.namespaces: ["*"]: only %s is watched, so a Pod elsewhere would be called gone; name the namespaces, or leave watchNamespaces out` (join "," $v.watchNamespaces)) }}
{{- else if not (has $n $v.watchNamespaces) }}
{{- fail (printf "config.scope.namespaces: %q: not watched; watchNamespaces is %s" $n (join "," $v.watchNamespaces)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq $v.tls.mode "cert-manager") (not $v.tls.issuerRef.name) }}
{{- fail "tls.issuerRef.name: missing; tls.mode cert-manager needs an issuer, secret a Secret of yours, and insecure is for labs" }}
{{- end }}
{{- if and (eq $v.tls.mode "secret") (not $v.tls.secretName) }}
{{- fail "tls.secretName: missing; tls.mode is secret" }}
{{- end }}
{{- if and (eq $v.tls.mode "insecure") (or $v.tls.secretName $v.tls.clientCASecretName $v.tls.clientIdentities) }}
{{- fail "tls.secretName, tls.clientCASecretName, tls.clientIdentities: without effect; tls.mode is insecure" }}
{{- end }}
{{- if and (ne $v.tls.mode "insecure") (not $v.tls.clientIdentities) }}
{{- fail `tls.clientIdentities: missing; allowed: the names of the Envoys in their certificates, or ["*"] for every certificate of the client CA` }}
{{- end }}
{{- if and (has "*" $v.tls.clientIdentities) (gt (len $v.tls.clientIdentities) 1) }}
{{- fail `tls.clientIdentities: "*" beside others; it admits every certificate of the client CA` }}
{{- end }}
{{- $n := $v.networkPolicy }}
{{- if and $n.enabled (not $n.envoy) }}
{{- fail "networkPolicy.envoy: missing; allowed: the peers that Envoy runs as, or networkPolicy.enabled: false" }}
{{- end }}
{{- if and (not $n.enabled) (or $n.envoy $n.monitoring $n.sandboxes.namespaces) }}
{{- fail "networkPolicy.envoy, monitoring, sandboxes.namespaces: without effect; networkPolicy.enabled is false" }}
{{- end }}
{{- if and $n.sandboxes.namespaces (kindIs "string" $v.config.ports) (eq $n.sandboxes.otherPorts "open") }}
{{- fail "networkPolicy.sandboxes.otherPorts: open: config.ports is any, so there are no others" }}
{{- end }}
{{- if eq (int $v.ports.check) (int $v.ports.health) }}
{{- fail (printf "ports.health: %d: ports.check is the same" (int $v.ports.health)) }}
{{- end }}
{{- end }}
