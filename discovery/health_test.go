package discovery

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestVerdictStreaks(t *testing.T) {
	// p, f and s are probes that pass, fail and are silent; after each the verdict.
	for _, c := range []struct{ probes, verdicts string }{
		{"p", "h"},
		{"ff p", "?? h"},               // the first pass without a verdict counts at once
		{"fff", "??u"},                 // three in a row
		{"p ff p ff p", "h hh h hh h"}, // streaks broken by a pass
		{"fff p f p p", "??u u u u h"}, // back after two in a row
		{"p fff pp", "h hhu uh"},
		{"s", "?"},
		{"fff s", "??u ?"}, // it answers, if without a verdict
		{"p sss", "h hhu"}, // a 404 where there was a 200 is a failure
		{"p sss pp s", "h hhu uh h"},
	} {
		v := verdict{}
		var got strings.Builder
		for _, p := range c.probes {
			switch p {
			case 'p':
				v = v.after(passed, 3, 2)
			case 'f':
				v = v.after(failed, 3, 2)
			case 's':
				v = v.after(silent, 3, 2)
			default:
				got.WriteByte(' ')
				continue
			}
			got.WriteByte("?hu"[v.health])
		}
		assert.Equal(t, c.verdicts, got.String(), c.probes)
	}
}

// Whatever came before: a verdict changes only at the end of a streak that agrees
// with it.
func TestVerdictNeedsItsStreak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failAfter, passAfter := rapid.IntRange(1, 4).Draw(t, "failAfter"), rapid.IntRange(1, 4).Draw(t, "passAfter")
		v, fails, passes := verdict{}, 0, 0
		for _, ok := range rapid.SliceOf(rapid.Bool()).Draw(t, "probes") {
			was := v.health
			if ok {
				v, fails, passes = v.after(passed, failAfter, passAfter), 0, passes+1
			} else {
				v, fails, passes = v.after(failed, failAfter, passAfter), fails+1, 0
			}
			switch {
			case was == v.health:
			case v.health == Unhealthy && fails < failAfter,
				v.health == Healthy && was == Unhealthy && passes < passAfter,
				v.health == Unknown:
				t.Fatalf("%v became %v after %d failures and %d passes", was, v.health, fails, passes)
			}
			if fails >= failAfter && v.health != Unhealthy || passes >= passAfter && v.health != Healthy {
				t.Fatalf("still %v after %d failures and %d passes", v.health, fails, passes)
			}
		}
	})
}

func TestHealthString(t *testing.T) {
	assert.Equal(t, "unknown healthy unhealthy", Unknown.String()+" "+Healthy.String()+" "+Unhealthy.String())
}
