{{- /* Names are fixed: a cluster has one Grove operator, and its webhook configurations have fixed names too. */ -}}

{{- define "grove.selector" -}}
app.kubernetes.io/name: grove
app.kubernetes.io/component: operator
{{- end }}

{{- define "grove.labels" -}}
{{ include "grove.selector" . }}
app.kubernetes.io/part-of: grove
{{- end }}

{{- define "grove.image" -}}
{{- $name := printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" $name .Values.image.digest }}{{ else }}{{ $name }}{{ end -}}
{{- end }}

{{- /* "true" if the operator does not create its certificate itself. */ -}}
{{- define "grove.isManual" -}}
{{- if ne .Values.certificates.mode "own" }}true{{ end -}}
{{- end }}

{{- /* The configuration file of the operator. */ -}}
{{- define "grove.configuration" -}}
{{- $config := deepCopy .Values.config -}}
{{- if include "grove.isManual" . }}{{ $_ := set $config.server.webhooks "certProvisionMode" "manual" }}{{ end -}}
{{- $_ := set $config "apiVersion" "operator.config.grove.io/v1alpha1" -}}
{{- $_ := set $config "kind" "OperatorConfiguration" -}}
{{ toYaml $config }}
{{ end }}

{{- /* The hash makes a changed configuration a new object, so that the pods are replaced. */ -}}
{{- define "grove.configMap" -}}
grove-operator-cm-{{ include "grove.configuration" . | sha256sum | trunc 8 }}
{{- end }}

{{- define "grove.secretName" -}}
{{ .Values.config.server.webhooks.secretName | default "grove-webhook-server-cert" }}
{{- end }}

{{- /* The schedulers of the profiles: they decide about roles. */ -}}
{{- define "grove.schedulers" -}}
{{- $names := list -}}
{{- range dig "scheduler" "profiles" list .Values.config }}{{ $names = append $names .name }}{{ end -}}
{{ $names | uniq | toJson }}
{{- end }}

{{- /* The rules of the operator: a map with `cluster` and `namespaced`, from the file that the operator's code writes. */ -}}
{{- define "grove.rules" -}}
{{- $file := .Files.Get "files/rbac.yaml" | fromYaml -}}
{{- $parts := list "controller" -}}
{{- range include "grove.schedulers" . | fromJsonArray }}{{ $parts = append $parts . }}{{ end -}}
{{- $parts = append $parts "admission" -}}
{{- if not (include "grove.isManual" .) }}{{ $parts = append $parts "trust" }}{{ end -}}
{{- $all := list -}}
{{- range $parts }}{{ range index $file . }}{{ $all = append $all . }}{{ end }}{{ end -}}
{{- $cluster := list -}}{{- $namespaced := list -}}
{{- range $all -}}
{{- if .isClusterScoped }}{{ $cluster = append $cluster .rule }}{{ else }}{{ $namespaced = append $namespaced .rule }}{{ end -}}
{{- end -}}
{{- $rules := list -}}{{- range $all }}{{ $rules = append $rules .rule }}{{ end -}}
{{ dict "all" $rules "cluster" $cluster "namespaced" $namespaced | toYaml }}
{{- end }}

{{- define "grove.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: grove-operator
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* The namespaceSelector of a webhook. */ -}}
{{- define "grove.namespaceSelector" -}}
{{- if .Values.watchNamespaces -}}
{"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": {{ toJson .Values.watchNamespaces }}}]}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- /* Values that contradict each other. */ -}}
{{- define "grove.check" -}}
{{- $server := .Values.config.server -}}
{{- if and (gt (int .Values.replicas) 1) (not (dig "leaderElection" "enabled" false .Values.config)) -}}
{{- fail (printf "%d replicas need config.leaderElection.enabled: true, otherwise each of them would write; enable it, or set replicas: 1" (int .Values.replicas)) -}}
{{- end -}}
{{- $ports := list (int $server.webhooks.port) (int $server.healthProbes.port) (int $server.metrics.port) -}}
{{- if or (has 0 $ports) (lt (len (uniq $ports)) 3) -}}
{{- fail (printf "the ports of config.server.webhooks, healthProbes and metrics are %v: set three different ports that are not 0" $ports) -}}
{{- end -}}
{{- if and .Values.certificates.caBundle (ne .Values.certificates.mode "manual") -}}
{{- fail "certificates.caBundle is only for your own certificates: set certificates.mode: manual, or omit it" -}}
{{- end -}}
{{- if and (eq .Values.certificates.mode "cert-manager") (not .Values.certificates.issuer.name) -}}
{{- fail "certificates.mode: cert-manager needs certificates.issuer.name" -}}
{{- end -}}
{{- end }}
