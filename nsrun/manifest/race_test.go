//go:build race

package manifest

// slow is how much slower the race detector makes things.
const slow = 10
