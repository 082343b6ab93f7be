package gridsmith

import (
	"strings"
	"testing"
)

func placeAll(d *Dispatcher, launch int) (sms, handles []int) {
	for sm := d.Next(launch); sm != Wait; sm = d.Next(launch) {
		sms = append(sms, sm)
		handles = append(handles, d.Place(launch, sm))
	}
	return
}

func TestBlocksWaitAndStart(t *testing.T) {
	d, err := New("rtx3090", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	launch, err := d.Launch(Kernel{Name: "k", Blocks: 300, Threads: 512, Registers: 32, Shared: 32768})
	if err != nil {
		t.Fatal(err)
	}
	sms, handles := placeAll(d, launch)
	if len(sms) != 3*d.SMs() || sms[0] != 0 || sms[1] != 2 {
		t.Errorf("%d blocks on SMs %v", len(sms), sms)
	}
	if why := d.Why(launch); !strings.HasPrefix(why, "54 of 300 blocks of k wait: ") {
		t.Error(why)
	}
	copied, err := d.Copy()
	if err != nil || !d.Equal(copied) || copied.SMs() != d.SMs() {
		t.Fatal("a copy differs", err)
	}
	d.Release(handles[5])
	if d.Equal(copied) || d.Next(launch) != sms[5] || copied.Next(launch) != Wait {
		t.Error("the end of a block")
	}
	copied.Close()
}

func TestErrorsAreWords(t *testing.T) {
	if _, err := New("h201", Limits{}); err == nil || !strings.Contains(err.Error(), "h201") {
		t.Error(err)
	}
	if _, err := New("h200", Limits{ThreadsPerSM: 100}); err == nil || !strings.Contains(err.Error(), "threads_per_sm") {
		t.Error(err)
	}
	d, _ := New("h200", Limits{SMs: 3, BlocksPerSM: 2})
	defer d.Close()
	if _, err := d.Launch(Kernel{Name: "k", Blocks: 1, Threads: 2000, Registers: 32}); err == nil {
		t.Error("a block of 2000 threads")
	}
	launch, _ := d.Launch(Kernel{Name: "k", Blocks: 9, Threads: 32, Registers: 32})
	if sms, _ := placeAll(d, launch); len(sms) != 6 {
		t.Errorf("%v", sms)
	}
}
