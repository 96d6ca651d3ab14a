package testenv

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// EighthVar names the environment variable with the eighth, 0 to 7, that [Sample] takes in the fast tier. Without it, the eighth is that of
// the day in UTC, so that every run of a day takes the same one and eight days take all.
const EighthVar = "NSRUN_TEST_EIGHTH"

// PointVar names the environment variable that makes [Sample] return one point only, in every tier: the one to repeat after a failure.
const PointVar = "NSRUN_TEST_POINT"

// Sample returns which of n points a test tries. In the tier all these are all of them. In the fast tier they are the first point of every
// class and an eighth of the others, and their number does not depend on which eighth it is.
func Sample(t testing.TB, n int, class func(point int) string) []int {
	t.Helper()
	if text := os.Getenv(PointVar); text != "" {
		point, err := strconv.Atoi(text)
		if err != nil || point < 0 || point >= n {
			t.Skipf("%s=%s is not a point of this test, which has %d", PointVar, text, n)
		}
		return []int{point}
	}
	if All() {
		points := make([]int, n)
		for i := range points {
			points[i] = i
		}
		return points
	}
	e := eighth(t)
	points := sample(n, e, class)
	t.Logf("%d of %d points: the first of each class, and eighth %d of the others; %s=%d repeats this choice, %s=N tries point N alone",
		len(points), n, e, EighthVar, e, PointVar)
	return points
}

func sample(n, eighth int, class func(point int) string) (points []int) {
	var rest []int
	seen := map[string]bool{}
	for i := range n {
		if name := class(i); !seen[name] {
			seen[name] = true
			points = append(points, i)
		} else {
			rest = append(rest, i)
		}
	}
	for j, more := eighth, (len(rest)+7)/8; more > 0; j, more = j+8, more-1 {
		points = append(points, rest[j%len(rest)]) // beyond the end, the first ones again: each eighth has the same size
	}
	slices.Sort(points)
	return points
}

func eighth(t testing.TB) int {
	t.Helper()
	text := os.Getenv(EighthVar)
	if text == "" {
		return int(time.Now().Unix() / (24 * 60 * 60) % 8)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 7 {
		t.Fatalf("%s=%s: give a number from 0 to 7", EighthVar, text)
	}
	return n
}
