package mad_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/goroce/goroce/ib/mad"
)

// fieldBits is the width of every field that is narrower than its Go type.
var fieldBits = map[string]uint{
	"VendorID": 24, "QPN": 24, "RemoteQPN": 24, "LocalEECN": 24, "RemoteEECN": 24, "EECN": 24, "StartingPSN": 24,
	"RemoteCMTimeout": 5, "LocalCMTimeout": 5, "AckTimeout": 5, "TargetAckDelay": 5, "ServiceTimeout": 5,
	"Transport": 2, "Failover": 2, "Rejected": 2, "Acknowledged": 2,
	"RetryCount": 3, "RNRRetryCount": 3, "ExtendedTransport": 3,
	"MTU": 4, "MaxCMRetries": 4, "SL": 4, "PacketRate": 6, "FlowLabel": 20,
}

// TestFields sets every field of every message, one at a time, to the largest value that fits,
// which must come back alone, and to the next, which must be refused before anything is written.
func TestFields(t *testing.T) {
	checked := map[string]bool{}
	for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
		forEachField(reflect.ValueOf(newMessage(a)).Elem(), nil, func(index []int, f reflect.StructField) {
			m := newMessage(a)
			v := reflect.ValueOf(m).Elem().FieldByIndex(index)
			var set func()
			tooMuch := func() bool { return false }
			switch v.Kind() {
			case reflect.Bool:
				set = func() { v.SetBool(true) }
			case reflect.Slice:
				n := reflect.ValueOf(decoded(a)).Elem().FieldByIndex(index).Len()
				set = func() { v.SetBytes(full(n, 1, 2, 3)) }
				tooMuch = func() bool { v.SetBytes(make([]byte, n+1)); return true }
			case reflect.Array:
				set = func() {
					for i := range v.Len() {
						v.Index(i).SetUint(uint64(0xF0 + i))
					}
				}
			default:
				bits := uint(v.Type().Bits())
				if n, narrow := fieldBits[f.Name]; narrow {
					bits = n
					checked[f.Name] = true
				} else if f.Name == "InfoLen" && a == mad.AttrREJ {
					bits = 7
				}
				set = func() { v.SetUint(1<<bits - 1) }
				tooMuch = func() bool {
					if bits < uint(v.Type().Bits()) {
						v.SetUint(1 << bits)
						return true
					}
					return false
				}
			}
			set()
			d := new(mad.Data)
			if err := m.Put(d); err != nil {
				t.Errorf("%v, %s: %v", a, f.Name, err)
				return
			}
			back := newMessage(a)
			back.Decode(d)
			// Slices that were not set come back as zeros of full length.
			want := decoded(a)
			reflect.ValueOf(want).Elem().FieldByIndex(index).Set(v)
			if !reflect.DeepEqual(back, want) {
				t.Errorf("%v, %s: put\n%+v, came back\n%+v", a, f.Name, want, back)
			}
			if !tooMuch() {
				return
			}
			before := dirty()
			after := before
			err := m.Put((*mad.Data)(after[mad.HeaderBytes:]))
			var fe *mad.FieldError
			if !errors.As(err, &fe) || fe.Message != a || fe.Value <= fe.Max || fe.Error() == "" {
				t.Errorf("%v, %s too large: %v", a, f.Name, err)
			}
			if after != before {
				t.Errorf("%v, %s too large: something was written", a, f.Name)
			}
		})
	}
	if len(checked) != len(fieldBits) {
		t.Errorf("only %d of %d narrow fields were met", len(checked), len(fieldBits))
	}
}

// decoded returns message a decoded from zeros.
func decoded(a mad.Attribute) message {
	m := newMessage(a)
	m.Decode(new(mad.Data))
	return m
}

// forEachField calls fn for every field, those of nested structs included.
func forEachField(v reflect.Value, index []int, fn func([]int, reflect.StructField)) {
	for i := range v.NumField() {
		at := append(append([]int(nil), index...), i)
		if v.Field(i).Kind() == reflect.Struct {
			forEachField(v.Field(i), at, fn)
			continue
		}
		fn(at, v.Type().Field(i))
	}
}
