package latecomer;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whether data of a schema is a whole record with no more records in one another than a reader can bear. Avro's own
 * reader goes through data by recursion. This goes through it with a stack of its own, as `_Walk` does in
 * model/avro/bounds.py, which says why.
 *
 * It is compiled by Spark's own compiler, which knows neither generics nor lambdas.
 */
public class AvroDepth implements UDF1 {
    private static final Map PARSED = new ConcurrentHashMap();
    private static final long STEPS_A_BYTE = 10, STEPS = 4 << 20;

    private final String schema;
    private final int most;

    public AvroDepth(String schema, int most) {
        this.schema = schema;
        this.most = most;
    }

    public Column of(Column data) {
        return functions.udf((UDF1) this, DataTypes.BooleanType).apply(new Column[] {data});
    }

    public Object call(Object data) {
        return Boolean.valueOf(data != null && new Walk((byte[]) data, most).isShallow(parsed()));
    }

    private Schema parsed() {
        Schema found = (Schema) PARSED.get(schema);
        if (found == null) {
            found = new Schema.Parser().parse(schema);
            PARSED.put(schema, found);
        }
        return found;
    }

    static class Walk {
        private static final int ENTRY = 1, END = 2;
        private static final Schema NOTHING = Schema.create(Schema.Type.NULL);

        private final byte[] data;
        private final int most;
        private int at = 0;
        private boolean isRefused = false;

        // What comes next, the last first: a type, how many values of it, how many records they are in, and a mark:
        // it is the entries of a map, or there is a block that has to end at this count of bytes.
        private Schema[] types = new Schema[64];
        private long[] counts = new long[64];
        private int[] depths = new int[64];
        private int[] marks = new int[64];
        private int size = 0;

        Walk(byte[] data, int most) {
            this.data = data;
            this.most = most;
        }

        boolean isShallow(Schema root) {
            long left = STEPS + STEPS_A_BYTE * data.length;
            push(root, 1, 0, 0);
            while (size > 0 && !isRefused) {
                if (left-- == 0) {
                    return false;
                }
                int top = size - 1;
                Schema type = types[top];
                int depth = depths[top];
                int mark = marks[top];
                if (mark == END) {
                    isRefused = counts[top] != at;
                    size--;
                    continue;
                }
                if (--counts[top] == 0) {
                    size--;
                }
                if (mark == ENTRY) {
                    skip(number());
                }
                value(type.getType() == Schema.Type.UNION ? branch(type) : type, depth);
            }
            return !isRefused;
        }

        private Schema branch(Schema union) {
            List branches = union.getTypes();
            long nth = number();
            if (isRefused || nth < 0 || nth >= branches.size()) {
                isRefused = true;
                return NOTHING;
            }
            return (Schema) branches.get((int) nth);
        }

        private void value(Schema type, int depth) {
            switch (type.getType()) {
                case RECORD:
                    isRefused = isRefused || depth == most;
                    List fields = type.getFields();
                    for (int nth = fields.size() - 1; nth >= 0; nth--) {
                        push(((Schema.Field) fields.get(nth)).schema(), 1, depth + 1, 0);
                    }
                    break;
                case ARRAY:
                    block(type, type.getElementType(), depth, 0);
                    break;
                case MAP:
                    block(type, type.getValueType(), depth, ENTRY);
                    break;
                case FIXED:
                    skip(type.getFixedSize());
                    break;
                case INT:
                case LONG:
                case ENUM:
                    number();
                    break;
                case STRING:
                case BYTES:
                    skip(number());
                    break;
                case BOOLEAN:
                    skip(1);
                    break;
                case FLOAT:
                    skip(4);
                    break;
                case DOUBLE:
                    skip(8);
                    break;
                default:
            }
        }

        private void block(Schema type, Schema item, int depth, int mark) {
            long count = number();
            if (count == 0) {
                return;
            }
            push(type, 1, depth, 0);
            if (count < 0) {
                push(type, number() + at, depth, END);
                count = -count;
            }
            isRefused = isRefused || count < 0;
            push(item, count, depth, mark);
        }

        private void push(Schema type, long count, int depth, int mark) {
            if (size == types.length) {
                types = (Schema[]) Arrays.copyOf(types, 2 * size);
                counts = Arrays.copyOf(counts, 2 * size);
                depths = Arrays.copyOf(depths, 2 * size);
                marks = Arrays.copyOf(marks, 2 * size);
            }
            types[size] = type;
            counts[size] = count;
            depths[size] = depth;
            marks[size++] = mark;
        }

        private long number() {
            long found = 0;
            for (int shift = 0; shift < 70 && at < data.length; shift += 7) {
                byte next = data[at++];
                found |= (next & 0x7FL) << shift;
                if (next >= 0) {
                    return (found >>> 1) ^ -(found & 1);
                }
            }
            isRefused = true;
            return 0;
        }

        private void skip(long length) {
            if (length < 0 || length > data.length - at) {
                isRefused = true;
            } else {
                at += (int) length;
            }
        }
    }
}
