//go:build !race

package main

// overhead is how much memory a process of this binary's takes for what it holds, at most: buffers that grow are copied, and Go lets garbage grow to as much again.
const overhead = 5
