//go:build !race

package manifest

const slow = 1
