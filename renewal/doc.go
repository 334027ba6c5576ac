// Package renewal keeps sandboxes alive that are in use.
//
// An OpenSandbox sandbox may be made with access.renew.extend.seconds: its life is
// extended whenever somebody uses it. OpenSandbox's ingress tells the server so by an
// intent in a Redis list; where Envoy is in the ingress's place, this package does. It
// reads Envoy's access log stream, not the checks: only there is it known whether the
// Pod has answered, and whether a stream that was checked an hour ago is still running.
//
// In reading order: entry.go says which sandbox an entry of the access log shows in
// use, service.go is the stream of entries, intent.go the message, publisher.go the
// throttle and the bounded queue, redis.go the list, off.go what is reported where
// nothing is published.
//
// Nothing here decides about a request, and no request waits for it.
package renewal
