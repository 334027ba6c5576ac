// Package mtls is the TLS side of a listener: a certificate, and the clients that
// may connect, from files that are read again when they change.
//
// A broken edit keeps the last good certificate and says so. The package logs
// names, dates and errors, never what is in a key.
//
// identity.go is who may connect, files.go what is in the files, keeper.go what of
// it is in force, credentials.go how gRPC uses it.
package mtls
