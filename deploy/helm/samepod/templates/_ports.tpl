{{- /* config.ports as a sorted list of first-last, five digits each: YAML. */ -}}
{{- define "samepod.ranges" -}}
{{- $all := list }}
{{- range .Values.config.ports }}
{{- $ends := splitList "-" (toString .) }}
{{- $all = append $all (printf "%05d-%05d" (atoi (first $ends)) (atoi (last $ends))) }}
{{- end }}
{{- sortAlpha $all | toYaml }}
{{- end }}

{{- define "samepod.port" -}}
- {protocol: TCP, port: {{ .first }}{{ if ne .first .last }}, endPort: {{ .last }}{{ end }}}
{{- end }}

{{- /* The ports in config.ports, for a NetworkPolicy. */ -}}
{{- define "samepod.sandboxPorts" -}}
{{- range include "samepod.ranges" . | fromYamlArray }}
{{ include "samepod.port" (dict "first" (atoi (substr 0 5 .)) "last" (atoi (substr 6 11 .))) }}
{{- end }}
{{- end }}

{{- /* The ports that are not. */ -}}
{{- define "samepod.otherPorts" -}}
{{- $next := 1 }}
{{- range include "samepod.ranges" . | fromYamlArray }}
{{- $first := atoi (substr 0 5 .) }}
{{- if lt $next $first }}
{{ include "samepod.port" (dict "first" $next "last" (sub $first 1)) }}
{{- end }}
{{- $next = max $next (add1 (atoi (substr 6 11 .))) }}
{{- end }}
{{- if le $next 65535 }}
{{ include "samepod.port" (dict "first" $next "last" 65535) }}
{{- end }}
- {protocol: UDP, port: 1, endPort: 65535}
- {protocol: SCTP, port: 1, endPort: 65535}
{{- end }}
