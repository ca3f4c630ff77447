package client

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func (r *sessions) ids() (ids []string) {
	for e := r.order.Front(); e != nil; e = e.Next() {
		ids = append(ids, e.Value.(*keptSession).session.id)
	}
	return ids
}

func TestSessionsAreBounded(t *testing.T) {
	c := &Client{sessions: newSessions(SessionOptions{Max: 3})}
	first := c.Session("a")
	require.Same(t, first, c.Session("a"))
	c.Session("b")
	c.Session("c")
	c.Session("a")
	c.Session("d") // b was not used for the longest time
	require.Equal(t, []string{"d", "a", "c"}, c.sessions.ids())
	require.Same(t, first, c.Session("a"))
	require.NotEqual(t, c.Session("").ID(), c.Session("").ID())
	require.Len(t, c.sessions.ids(), 3)

	c.sessions.touch(first) // still in use: kept again
	require.Equal(t, "a", c.sessions.ids()[0])
	other := c.newSession("a")
	c.sessions.put(other)
	c.sessions.touch(first) // in vain: the name is another's
	require.Same(t, other, c.Session("a"))
	require.Len(t, c.sessions.byID, c.sessions.order.Len())
}

func TestSessionsExpire(t *testing.T) {
	for name, tt := range map[string]struct {
		idle, wait time.Duration
		kept       bool
	}{
		"by default":   {0, time.Hour - time.Second, true},
		"after it":     {0, time.Hour, false},
		"as they said": {time.Minute, time.Minute, false},
		"never":        {-1, 1000 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{sessions: newSessions(SessionOptions{Idle: tt.idle})}
				s := c.Session("a")
				<-time.After(tt.wait / 2) // the bubble's clock
				c.Session("b")
				c.sessions.touch(s)
				<-time.After(tt.wait)
				if c.Session("a"); tt.kept {
					require.Same(t, s, c.Session("a"))
					require.Len(t, c.sessions.ids(), 2)
				} else {
					require.NotSame(t, s, c.Session("a"))
					require.Equal(t, []string{"a"}, c.sessions.ids(), "b has gone too")
				}
			})
		})
	}
}

func TestSessionsDefaultBound(t *testing.T) {
	c := &Client{sessions: newSessions(SessionOptions{})}
	for i := range 1100 {
		c.Session(fmt.Sprint(i))
	}
	require.Len(t, c.sessions.ids(), 1024)
}
