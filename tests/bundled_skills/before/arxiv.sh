cat > feed.xml <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">
  <opensearch:totalResults>2</opensearch:totalResults>
  <entry><id>http://arxiv.org/abs/2405.00001v2</id><title>Tea and
    attention</title><updated>2024-05-03T10:00:00Z</updated><published>2024-05-01T10:00:00Z</published>
    <summary>We drink tea.</summary><author><name>Ann Example</name></author>
    <category term="cs.LG"/></entry>
  <entry><id>http://arxiv.org/abs/hep-th/9901001v1</id><title>Strings</title>
    <updated>1999-01-01T10:00:00Z</updated><published>1999-01-01T10:00:00Z</published>
    <summary>Strings.</summary><author><name>Bob Example</name></author><category term="hep-th"/></entry>
</feed>
XML
