package identity

import (
	"testing"
	"time"
	"unsafe"
)

// TestAge: whichever clock says that a word is older is believed.
func TestAge(t *testing.T) {
	now := time.Now() // with a monotonic reading
	wall := now.Round(0)
	for _, tc := range []struct {
		rule      string
		then, now time.Time
		want      time.Duration
	}{
		{"both agree", now, now.Add(time.Minute), time.Minute},
		{"wall clock only", wall, wall.Add(time.Minute), time.Minute},
		{"the future is not young", now.Add(time.Minute), now, 0},
		{"the machine slept: only the wall clock moved", now, jump(now, time.Hour), time.Hour},
		{"the wall clock was set back", now, jump(now, -time.Hour).Add(time.Minute), time.Minute},
	} {
		if got := Age(tc.then, tc.now); got != tc.want {
			t.Errorf("%s: Age = %v, want %v", tc.rule, got, tc.want)
		}
	}
}

// jump moves the wall clock of t by d, whole seconds, and leaves its monotonic
// reading alone, as a sleeping machine or a corrected clock does. The package time
// offers no such thing, so this writes the field time.Time.wall: 30 bits of
// nanoseconds below the seconds.
func jump(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(int64(d/time.Second) << 30)
	return t
}
