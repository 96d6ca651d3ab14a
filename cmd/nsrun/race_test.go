//go:build race

package main

import "time"

// overhead is how much memory a process of this binary's takes for what it holds, at most: the race detector has shadows of all.
const overhead = 8

// atExit is how long the race detector lets processes sleep before they end: a second each (atexit_sleep_ms), and a session ends after
// its spawner, which does not get the variable GORACE.
const atExit = 2 * time.Second
