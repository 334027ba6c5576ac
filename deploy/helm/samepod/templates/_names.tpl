{{- define "samepod.name" -}}
{{- if contains "samepod" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-samepod{{ end }}
{{- end }}

{{- /* Of objects that belong to no namespace. */ -}}
{{- define "samepod.clusterName" -}}
{{ include "samepod.name" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "samepod.selector" -}}
app.kubernetes.io/name: samepod
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "samepod.labels" -}}
{{ include "samepod.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "samepod.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "samepod.name" .) }}
{{- end }}

{{- define "samepod.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "samepod.name" .)) }}
{{- end }}

{{- define "samepod.image" -}}
{{- .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The name that Envoy resolves: each address of it is a replica. */ -}}
{{- define "samepod.host" -}}
{{ include "samepod.name" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}
