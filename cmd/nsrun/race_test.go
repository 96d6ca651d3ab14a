//go:build race

package main

// overhead is how much memory a process of this binary's takes for what it holds, at most: the race detector has shadows of all.
const overhead = 8
