// Package docker_test drives the nsrun command with its backend "docker" against a Docker daemon that the tests start, as root and as a user
// of another number, and against Podman.
//
//	go test ./e2e/docker                     all of it; root's alone, since a daemon is
//	go test ./e2e/docker -run TestNetwork    one promise
//
// Where CI is set, a machine without dockerd is a failure, else a skip.
package docker_test
