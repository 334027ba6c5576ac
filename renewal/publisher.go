package renewal

import (
	"context"
	"log/slog"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Bounds of what waits for Redis, and of what is remembered of sandboxes.
const (
	mostWaiting   = 8192 // OpenSandbox's ingress has as many
	mostSandboxes = 1 << 16
	mostBatch     = 256
	retryAfter    = time.Second
	// usefulFor is how old an intent may get; the server drops it when it is older.
	usefulFor = 5 * time.Minute
)

// Push appends messages to a list; it ends in time.
type Push func(ctx context.Context, messages [][]byte) error

// Publisher hands intents on, one for each sandbox in an interval. Who publishes never
// waits: [Publisher.Publish] puts into a bounded queue, and [Publisher.Run] empties it.
type Publisher struct {
	push     Push
	interval time.Duration
	log      *slog.Logger
	metrics  *Metrics
	waiting  chan Intent
	last     *lru.Cache[Sandbox, time.Time] // when an intent was last taken
}

// NewPublisher makes a Publisher that gives push at most one intent of a sandbox in an
// interval; 0 is every one.
func NewPublisher(push Push, interval time.Duration, log *slog.Logger, m *Metrics) *Publisher {
	last, err := lru.New[Sandbox, time.Time](mostSandboxes)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &Publisher{push: push, interval: interval, log: log, metrics: m, waiting: make(chan Intent, mostWaiting), last: last}
}

// Publish takes an intent, unless one of the sandbox was taken within the interval. It
// does not block.
func (p *Publisher) Publish(i Intent) {
	if at, ok := p.last.Get(i.Sandbox); ok && i.ObservedAt.Sub(at) < p.interval {
		p.metrics.count(throttled)
		return
	}
	select {
	case p.waiting <- i:
		p.last.Add(i.Sandbox, i.ObservedAt) // two callers at once may both pass: a renewal more
	default:
		p.metrics.count(overflow)
	}
}

// Run hands intents on until ctx ends, and then once more what is left.
func (p *Publisher) Run(ctx context.Context) {
	for {
		select {
		case i := <-p.waiting:
			p.deliver(ctx, p.batch(i))
		case <-ctx.Done():
			for len(p.waiting) > 0 { // once, and as long as that works
				if p.try(ctx, p.batch(<-p.waiting)) != nil {
					break
				}
			}
			return
		}
	}
}

// batch is an intent and those that wait behind it.
func (p *Publisher) batch(first Intent) []Intent {
	batch := []Intent{first}
	for len(batch) < mostBatch {
		select {
		case i := <-p.waiting:
			batch = append(batch, i)
		default:
			return batch
		}
	}
	return batch
}

// deliver pushes a batch, again and again until it is taken or of no use any more. A
// message of which only the answer was lost is pushed twice: a renewal more.
func (p *Publisher) deliver(ctx context.Context, batch []Intent) {
	for attempt := 1; len(batch) > 0; attempt++ {
		err := p.try(ctx, batch)
		switch {
		case err == nil && attempt > 1:
			p.log.Info("renewal intents are published again", "attempts", attempt)
			return
		case err == nil, ctx.Err() != nil:
			return
		case attempt == 1:
			p.log.Warn("renewal intents are not published, and tried again", "error", err)
		}
		wait(ctx, retryAfter)
		batch = p.useful(batch)
	}
}

// try pushes a batch, and counts.
func (p *Publisher) try(ctx context.Context, batch []Intent) error {
	messages := make([][]byte, len(batch))
	for n, i := range batch {
		messages[n] = i.encode()
	}
	if err := p.push(context.WithoutCancel(ctx), messages); err != nil {
		p.metrics.failures.Inc()
		return err
	}
	p.metrics.add(published, len(batch))
	return nil
}

// useful drops what the server would drop.
func (p *Publisher) useful(batch []Intent) []Intent {
	left := slices.DeleteFunc(slices.Clone(batch), func(i Intent) bool { return time.Since(i.ObservedAt) > usefulFor })
	p.metrics.add(expired, len(batch)-len(left))
	return left
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
