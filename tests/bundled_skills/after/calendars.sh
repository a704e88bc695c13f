grep -q 'DTSTART:20240507T130000Z' work.ics
grep -q 'SUMMARY:Dentist\\, Dr. Lee' work.ics
