package lab

// ControlBootstrap is what stands where samepod does not: it dials the address that
// the caller recorded.
const ControlBootstrap = `
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
static_resources:
  listeners:
  - name: front
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts:
            - { name: pods, domains: [ "*" ], routes: [ { match: { prefix: "/" }, route: { cluster: recorded, timeout: 0s } } ] }
  clusters:
  - name: recorded
    type: ORIGINAL_DST
    lb_policy: CLUSTER_PROVIDED
    connect_timeout: 0.5s
    original_dst_lb_config: { use_http_header: true, http_header_name: x-samepod-recorded }
`
