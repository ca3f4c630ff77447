package client

import (
	"container/list"
	"sync"
	"time"
)

// SessionOptions are the settings of a client's sessions. The zero value works.
type SessionOptions struct {
	// Max is how many sessions the client keeps; the one that was not used for
	// the longest time makes room. The default is 1,024: at 64 KiB each, a long
	// agent's transcript, they take 64 MiB.
	Max int
	// Idle is how long the client keeps a session that is not used. The
	// default is an hour: no prefix cache in memory holds a prompt much
	// longer (OpenAI's own drops it within that time). Negative keeps it
	// until Max is reached.
	Idle time.Duration
	// OnRewrite, if not nil, is called before a request that does not go on
	// from the last one of its session. It may be called by several goroutines
	// at once, and runs on the call's way. What it is given has excerpts of
	// the prompts.
	OnRewrite func(Rewrite)
}

// sessions are those that a client keeps.
type sessions struct {
	options SessionOptions

	mu    sync.Mutex
	byID  map[string]*list.Element
	order list.List // of *keptSession, the one used last in front
}

type keptSession struct {
	session *Session
	used    time.Time
}

func newSessions(o SessionOptions) *sessions {
	if o.Max == 0 {
		o.Max = 1024
	}
	if o.Idle == 0 {
		o.Idle = time.Hour
	}
	return &sessions{options: o, byID: map[string]*list.Element{}}
}

// get returns the session of that id, made by create if there is none.
func (r *sessions) get(id string, create func() *Session) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	if e := r.byID[id]; e != nil {
		r.use(e)
		return e.Value.(*keptSession).session
	}
	s := create()
	r.insert(s)
	return s
}

// put keeps s under its id, whatever was there.
func (r *sessions) put(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byID[s.id]; e != nil {
		r.forget(e)
	}
	r.insert(s)
	r.expire()
}

// touch notes that s is used. One that was forgotten meanwhile is kept again,
// unless its id has gone to another.
func (r *sessions) touch(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	switch e := r.byID[s.id]; {
	case e == nil:
		r.insert(s)
	case e.Value.(*keptSession).session == s:
		r.use(e)
	}
}

func (r *sessions) use(e *list.Element) {
	e.Value.(*keptSession).used = time.Now()
	r.order.MoveToFront(e)
}

func (r *sessions) insert(s *Session) {
	r.byID[s.id] = r.order.PushFront(&keptSession{session: s, used: time.Now()})
	if r.order.Len() > r.options.Max {
		r.forget(r.order.Back())
	}
}

func (r *sessions) forget(e *list.Element) {
	delete(r.byID, e.Value.(*keptSession).session.id)
	r.order.Remove(e)
}

// expire forgets those that were idle for too long.
func (r *sessions) expire() {
	if r.options.Idle < 0 {
		return
	}
	for e := r.order.Back(); e != nil; e = r.order.Back() {
		if time.Since(e.Value.(*keptSession).used) < r.options.Idle {
			return
		}
		r.forget(e)
	}
}
