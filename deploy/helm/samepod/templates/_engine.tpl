{{- /* The engine whose sandboxes are named: JSON with the kinds of sandboxes, and of Pools. */ -}}
{{- define "samepod.engine" -}}
{{- $dialect := .Values.config.dialect | default "claim" }}
{{- $kinds := list }}
{{- $pools := false }}
{{- $batch := dict "group" "sandbox.opensandbox.io" "resource" "batchsandboxes" }}
{{- $agent := dict "group" "agents.x-k8s.io" "resource" "sandboxes" }}
{{- if eq $dialect "opensandbox" }}
{{- $providers := dig "opensandbox" "providers" (list "batchsandbox") .Values.config }}
{{- if has "batchsandbox" $providers }}{{ $kinds = append $kinds $batch }}{{ $pools = true }}{{ end }}
{{- if has "agent-sandbox" $providers }}{{ $kinds = append $kinds $agent }}{{ end }}
{{- else if eq $dialect "agent-sandbox" }}
{{- $kinds = list $agent }}
{{- end }}
{{- dict "dialect" $dialect "kinds" $kinds "pools" $pools | toJson }}
{{- end }}

{{- /* What is read of the engine, as rules of a Role: YAML. */ -}}
{{- define "samepod.engineRules" -}}
{{- $engine := include "samepod.engine" . | fromJson }}
{{- $rules := list }}
{{- range $engine.kinds }}
{{- $rules = append $rules (dict "apiGroups" (list .group) "resources" (list .resource) "verbs" (list "get" "list" "watch")) }}
{{- end }}
{{- if $engine.pools }}
{{- $rules = append $rules (dict "apiGroups" (list "sandbox.opensandbox.io") "resources" (list "pools") "verbs" (list "list" "watch")) }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- /* The flags of samepod serve that only an engine has: YAML. */ -}}
{{- define "samepod.engineArgs" -}}
{{- $v := .Values }}
{{- $args := list }}
{{- if ne ($v.config.dialect | default "claim") "claim" }}
{{- $args = list (printf "--pins=%s" $v.pins) (printf "--wait-ready=%s" $v.waitReady) }}
{{- if ne $v.onReplace "auto" }}{{ $args = append $args (printf "--on-replace=%s" $v.onReplace) }}{{ end }}
{{- if $v.requirePin }}{{ $args = append $args "--require-pin" }}{{ end }}
{{- if $v.pinContainers }}{{ $args = append $args "--pin-containers" }}{{ end }}
{{- if $v.pinKeySecret.name }}{{ $args = append $args "--pin-key-file=/etc/samepod/secrets/pin-key" }}{{ end }}
{{- if $v.renewIntents.url }}{{ $args = append $args (printf "--renew-intents=%s" $v.renewIntents.url) }}{{ end }}
{{- if $v.renewIntents.passwordSecret.name }}{{ $args = append $args "--renew-intents-password-file=/etc/samepod/secrets/redis-password" }}{{ end }}
{{- end }}
{{- toYaml $args }}
{{- end }}

{{- /* The Secrets that are mounted in /etc/samepod/secrets: YAML. */ -}}
{{- define "samepod.engineSecrets" -}}
{{- $secrets := list }}
{{- range $path, $from := dict "pin-key" .Values.pinKeySecret "secure-access-keys" .Values.secureAccessKeysSecret "redis-password" .Values.renewIntents.passwordSecret }}
{{- if $from.name }}
{{- $secrets = append $secrets (dict "secret" (dict "name" $from.name "items" (list (dict "key" $from.key "path" $path)))) }}
{{- end }}
{{- end }}
{{- toYaml $secrets }}
{{- end }}

{{- /* samepod.yaml: config, and where its Secret is mounted. */ -}}
{{- define "samepod.config" -}}
{{- $config := deepCopy .Values.config }}
{{- if .Values.secureAccessKeysSecret.name }}
{{- $config = mergeOverwrite $config (dict "opensandbox" (dict "secureAccessKeysFile" "/etc/samepod/secrets/secure-access-keys")) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* What the schema cannot say of an engine's values. */ -}}
{{- define "samepod.engineCombinations" -}}
{{- $v := .Values }}
{{- $engine := include "samepod.engine" . | fromJson }}
{{- if eq $engine.dialect "claim" }}
{{- if or (ne $v.pins "annotation") (ne $v.onReplace "auto") $v.requirePin $v.pinContainers $v.pinKeySecret.name (ne $v.waitReady "0s") }}
{{- fail "pins, onReplace, requirePin, pinContainers, pinKeySecret, waitReady: without effect; config.dialect is claim" }}
{{- end }}
{{- end }}
{{- if and (ne $engine.dialect "opensandbox") (or $v.secureAccessKeysSecret.name $v.renewIntents.url) }}
{{- fail (printf "secureAccessKeysSecret, renewIntents: without effect; config.dialect is %s" $engine.dialect) }}
{{- end }}
{{- if and (ne $v.pins "annotation") (or $v.requirePin $v.pinKeySecret.name) }}
{{- fail (printf "requirePin, pinKeySecret: without effect; pins is %s" $v.pins) }}
{{- end }}
{{- if and (eq $v.pins "none") (or (ne $v.onReplace "auto") $v.pinContainers) }}
{{- fail "onReplace, pinContainers: without effect; pins is none" }}
{{- end }}
{{- if and $v.renewIntents.passwordSecret.name (not $v.renewIntents.url) }}
{{- fail "renewIntents.passwordSecret: without effect; there is no renewIntents.url" }}
{{- end }}
{{- if dig "opensandbox" "secureAccessKeysFile" "" $v.config }}
{{- fail "config.opensandbox.secureAccessKeysFile: no such file in the Pod; secureAccessKeysSecret names a Secret, and the chart mounts it" }}
{{- end }}
{{- end }}
