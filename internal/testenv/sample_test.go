package testenv

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheEighthsOfASampleCoverEveryPoint(t *testing.T) {
	for _, n := range []int{0, 1, 3, 8, 9, 16, 100, 553} {
		class := func(point int) string { return strconv.Itoa(point % 5) }
		seen, size := map[int]bool{}, len(sample(n, 0, class))
		for e := range 8 {
			points := sample(n, e, class)
			assert.Len(t, points, size, "the sizes of the eighths of %d points", n)
			for _, p := range points {
				seen[p] = true
			}
			for first := range min(n, 5) {
				assert.Contains(t, points, first, "the first point of each class")
			}
			assert.Len(t, slices.Compact(points), size, "no point twice")
		}
		assert.Len(t, seen, n, "all eighths together")
	}
}

func TestSampleInEachTier(t *testing.T) {
	class := func(int) string { return "one" }
	t.Setenv(PointVar, "")
	t.Setenv(EighthVar, "3")
	t.Setenv(TierVar, "all")
	assert.Len(t, Sample(t, 20, class), 20)
	t.Setenv(TierVar, "fast")
	assert.Equal(t, []int{0, 1, 4, 12}, Sample(t, 20, class))
	t.Setenv(PointVar, "7")
	assert.Equal(t, []int{7}, Sample(t, 20, class))
}
