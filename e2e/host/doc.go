// Package host runs nsrun on hosts that are locked down, each made for real in namespaces of the test's own, and compares what it says
// there with goldens: doctor's verdict and remedy, the error of a run, and the backend that fallback degrade comes to.
//
// It protects nothing.
package host
